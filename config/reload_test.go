package config

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestDocumentation_restart compares the list of docs/configuration.md with the code.
func TestDocumentation_restart(t *testing.T) {
	data, err := os.ReadFile("../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(data), "\n### Changing it\n")
	section, _, _ = strings.Cut(section, "\n### ")
	var listed []string
	for _, m := range regexp.MustCompile("(?m)^- `([^`]+)`").FindAllStringSubmatch(section, -1) {
		listed = append(listed, m[1])
	}
	slices.Sort(listed)
	want := slices.Sorted(slices.Values(append(restartKeys(), tlsSection)))
	if diff := cmp.Diff(want, listed); diff != "" {
		t.Errorf("keys that need a restart (-want +listed):\n%s", diff)
	}
}
