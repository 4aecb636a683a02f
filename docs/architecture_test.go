package docs

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitectureWalks sees that each step of the two walks names a function, and that
// everything that looks like one in them is qualified, so that TestIdentifiers looks it up.
func TestArchitectureWalks(t *testing.T) {
	text, declared := page(t, "docs/architecture.md"), source(t)
	for _, heading := range []string{"## The way of an update", "## The way of a subscription"} {
		steps := regexp.MustCompile(`(?m)^\d+\. `).Split(section(t, text, heading), -1)
		if len(steps) < 5 {
			t.Errorf("%s: it has no steps", heading)
			continue
		}
		for i, step := range steps[1:] {
			found := spans(step)
			if !slices.ContainsFunc(found, func(s string) bool { _, ok := declared.has(s); return ok }) {
				t.Errorf("%s: step %d names no function", heading, i+1)
			}
			for _, s := range found {
				if strings.Contains(s, "(") {
					t.Errorf("%s: step %d: name the function in %q as package.Type.Function", heading, i+1, s)
				}
			}
		}
	}
}

// TestArchitecturePackages compares the table of packages with those that there are: each
// has one row, of its own or of a folder above it ("cmd/…"). Modules of their own are left out.
func TestArchitecturePackages(t *testing.T) {
	rows := make(map[string]bool)
	for _, row := range cells(section(t, page(t, "docs/architecture.md"), "## Packages")) {
		if len(row) != 3 {
			t.Errorf("%q has %d cells, want 3: package, owns, does not own", row[0], len(row))
		}
		for _, name := range spans(row[0]) {
			if rows[name] {
				t.Errorf("%s has two rows", name)
			}
			rows[name] = true
		}
	}
	covered := make(map[string]bool)
	for _, at := range source(t).packages {
		row := at
		for up := at; !rows[row] && up != "."; up = path.Dir(up) {
			row = up + "/…"
		}
		if !rows[row] {
			t.Errorf("%s has no row", at)
		}
		covered[row] = true
	}
	for name := range rows {
		if !covered[name] {
			t.Errorf("%s has a row but is no package", name)
		}
	}
}
