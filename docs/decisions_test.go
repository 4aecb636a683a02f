package docs

import (
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDecisions sees that the records are numbered without gaps, that each has its parts,
// and that the index lists each once, under its title.
func TestDecisions(t *testing.T) {
	const folder = "docs/decisions/"
	records := pages(t)
	index := records[folder+"README.md"]
	maps.DeleteFunc(records, func(name, _ string) bool {
		return !strings.HasPrefix(name, folder) || name == folder+"README.md"
	})
	for i, name := range slices.Sorted(maps.Keys(records)) {
		text := records[name]
		file := path.Base(name)
		if want := fmt.Sprintf("%04d-", i+1); !strings.HasPrefix(file, want) {
			t.Errorf("%s: the next number is %s", name, want)
		}
		title, _, _ := strings.Cut(strings.TrimPrefix(text, "# "), "\n")
		if !strings.HasPrefix(title, fmt.Sprintf("%d. ", i+1)) {
			t.Errorf("%s: the title %q has another number", name, title)
		}
		if strings.Count(index, fmt.Sprintf("| [%s](%s) |", title, file)) != 1 {
			t.Errorf("%s: the index has no row [%s](%s)", name, title, file)
		}
		parts := regexp.MustCompile(`(?m)^(?:## .*|\*\*Status:\*\*)`).FindAllString(text, -1)
		if want := []string{"**Status:**", "## Context", "## Decision", "## Consequences", "## Rejected"}; !slices.Equal(parts, want) {
			t.Errorf("%s: it has the parts %q, want %q", name, parts, want)
		}
	}
}

// TestIdentifiers looks up what the pages about the code name in it: a code span such as
// "cache.Store.Apply" is declared there, and a file is there. Keys of the configuration look
// alike, and are listed in docs/configuration.md.
func TestIdentifiers(t *testing.T) {
	all, declared := pages(t), source(t)
	keys := make(map[string]bool)
	for _, row := range cells(all["docs/configuration.md"]) {
		keys[strings.Trim(row[0], "`")] = true
	}
	sources := files(t, "")
	for name, text := range all {
		if !aboutCode(name) {
			continue
		}
		for _, s := range spans(text) {
			if named, ok := declared.has(s); named && !ok && !keys[s] {
				t.Errorf("%s: %s is neither declared nor a key of the configuration", name, s)
			}
			if strings.Contains(s, "/") && path.Ext(s) == ".go" && !slices.Contains(sources, s) {
				t.Errorf("%s: there is no file %s", name, s)
			}
		}
	}
}

// aboutCode reports whether a page says where things are in the code. The other pages for those
// who change it say how it works: their identifiers are not held to the code.
func aboutCode(name string) bool {
	return strings.HasPrefix(name, "docs/decisions/") ||
		slices.Contains([]string{"docs/architecture.md", "docs/releasing.md", "CONTRIBUTING.md"}, name)
}
