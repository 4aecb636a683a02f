package config_test

import (
	"slices"
	"strings"
	"testing"
)

const migrating = "../docs/migrating-from-xds-relay.md"

// byAccident marks, in the document, keys that run together.
const byAccident = "` ⚠"

// TestMigrating_AGG1_AGG2 executes every example of docs/migrating-from-xds-relay.md on both sides:
// each client has the key that the document says, and the rule and scope; and two clients
// have one key there exactly if they are served the same here.
func TestMigrating_AGG1_AGG2(t *testing.T) {
	used := make(map[string]bool)
	examples := ruleDocument(t, migrating)
	for _, e := range examples {
		t.Run(exampleName(e), func(t *testing.T) {
			theirs, constructs, err := parseTheirs(e.theirs)
			if err != nil {
				t.Fatal(err)
			}
			for _, construct := range constructs {
				used[construct] = true
			}
			keys := make([]string, len(e.clients))
			for i, c := range e.clients {
				r := theirRequest{node: c.node, typ: c.typ}
				if c.name != "" {
					r.names = []string{c.name}
				}
				keys[i], err = theirs.key(r)
				if want := strings.TrimSuffix(c.cells["key"], byAccident); keys[i] != want {
					t.Errorf("%s %s %s: key %q, want %q (%v)", c.cells["client"], c.cells["type"], c.name, keys[i], want, err)
				}
			}
			e.compare(t, keys, e.check(t))
		})
	}
	for _, construct := range theirConstructs() {
		if !used[construct] {
			t.Errorf("no example has %q", construct)
		}
	}
}

// compare holds who shares there against who shares here.
func (e *ruleExample) compare(t *testing.T, keys, identities []string) {
	t.Helper()
	for i := range keys {
		for j := range i {
			marked := strings.HasSuffix(e.clients[i].cells["key"], byAccident) && strings.HasSuffix(e.clients[j].cells["key"], byAccident)
			there, here := keys[i] != "" && keys[i] == keys[j], identities[i] == identities[j]
			if there != here && !(marked && there) || marked && !there {
				t.Errorf("%s and %s: the same there: %t, here: %t", e.clients[j].cells["client"], e.clients[i].cells["client"], there, here)
			}
		}
		if keys[i] == "" && !slices.Contains([]string{"isolated", "refused"}, e.clients[i].cells["scope"]) {
			t.Errorf("%s has no key there, and is shared here", e.clients[i].cells["client"])
		}
	}
}
