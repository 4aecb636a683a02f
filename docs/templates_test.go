package docs

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// form is an issue form as GitHub reads it.
type form struct {
	Name, Description string
	Labels            []string
	Body              []struct {
		Type, ID   string
		Attributes struct {
			Label, Description, Value, Render string
			Options                           []string
		}
		Validations struct{ Required bool }
	}
}

// TestIssueForms reads the forms strictly: GitHub shows one with a mistake to nobody, and says
// so to nobody.
func TestIssueForms(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(root, ".github/ISSUE_TEMPLATE/*.yml"))
	if err != nil || len(names) < 4 {
		t.Fatalf("%q, %v: too few", names, err)
	}
	for _, name := range names {
		if filepath.Base(name) == "config.yml" {
			continue
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var f form
		decoder := yaml.NewDecoder(strings.NewReader(string(data)))
		decoder.KnownFields(true)
		if err := decoder.Decode(&f); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if f.Name == "" || f.Description == "" || len(f.Body) == 0 {
			t.Errorf("%s: a form needs a name, a description and a body", name)
		}
		var ids []string
		for _, e := range f.Body {
			a := e.Attributes
			switch {
			case e.Type == "markdown" && a.Value != "":
				continue
			case !slices.Contains([]string{"input", "textarea", "dropdown"}, e.Type), a.Label == "",
				(e.Type == "dropdown") != (len(a.Options) > 0), a.Render != "" && e.Type != "textarea":
				t.Errorf("%s: %q is no field", name, e.ID)
			case e.ID == "", slices.Contains(ids, e.ID):
				t.Errorf("%s: %q needs an id of its own", name, a.Label)
			}
			ids = append(ids, e.ID)
		}
	}
}
