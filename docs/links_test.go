package docs

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#+ +(.*?) *$`)
)

// TestLinks follows every link between the pages, and to files and folders, anchors
// included.
func TestLinks(t *testing.T) {
	all := pages(t)
	for name, text := range all {
		text = span.ReplaceAllString(fence.ReplaceAllString(text, ""), "")
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(m[1], "#")
			target := name
			if file != "" {
				target = path.Join(path.Dir(name), file)
			}
			if _, err := os.Stat(filepath.Join(root, target)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, m[1])
				continue
			}
			if anchor != "" && !anchors(all[target])[anchor] {
				t.Errorf("%s: %s has no heading #%s", name, target, anchor)
			}
		}
	}
}

// TestIndex has docs/README.md link each page of the folder, so that readers find all of them there.
func TestIndex(t *testing.T) {
	all := pages(t)
	linked := make(map[string]bool)
	for _, m := range link.FindAllStringSubmatch(all["docs/README.md"], -1) {
		linked[path.Join("docs", m[1])] = true
	}
	for name := range all {
		folder := path.Dir(name)
		if (folder == "docs" || folder == "docs/start") && name != "docs/README.md" && !linked[name] {
			t.Errorf("docs/README.md does not link %s", name)
		}
	}
}

// anchors are the anchors that GitHub gives to the headings of a page.
func anchors(text string) map[string]bool {
	all := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		title := link.ReplaceAllString(m[1], "]")
		slug := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, title)
		unique := slug
		for n := 1; all[unique]; n++ {
			unique = slug + "-" + strconv.Itoa(n)
		}
		all[unique] = true
	}
	return all
}

// command is a make target in a code span or a code block.
var command = regexp.MustCompile(`(?m)(?:^ *|` + "`" + `)make +((?:[a-z][a-z-]*)(?: +[a-z][a-z-]*)*)`)

// TestCommands compares the make targets that the pages name with the Makefile.
func TestCommands(t *testing.T) {
	data, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^([a-z][a-z-]*):`).FindAllStringSubmatch(string(data), -1) {
		targets[m[1]] = true
	}
	for name, text := range pages(t) {
		code := strings.Join(append(fence.FindAllString(text, -1), span.FindAllString(text, -1)...), "\n")
		for _, m := range command.FindAllStringSubmatch(code, -1) {
			for target := range strings.FieldsSeq(m[1]) {
				if !targets[target] {
					t.Errorf("%s: the Makefile has no target %q (%s)", name, target, m[0])
				}
			}
		}
	}
}
