package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// The version of what a client subscribes to is the server's where that speaks of just this, and else a digest, the same
// whatever label stands before it (ACK-4). A client that may not have all sees neither (ACC-3).
func TestStateVersion_ACK4_ACC3(t *testing.T) {
	for _, tc := range []struct {
		name     string
		state    bool // the server speaks the state of the world
		subs     []string
		screened bool
		server   bool // the version is the server's
		label    string
	}{
		{"*", true, []string{"*"}, false, true, ""},
		{"names", true, []string{"a"}, false, true, ""},
		{"as many names as globs", true, []string{"a", globG}, false, true, ""},
		{"both", true, []string{"*", "a"}, false, true, ""},
		{"* of a client that may not have all", true, []string{"*"}, true, false, ""},
		{"names of a client that may not have all", true, []string{"a"}, true, false, ""},
		{"incremental: *", false, []string{"*"}, false, false, "whole/"},
		{"incremental: names", false, []string{"a"}, false, false, "named/"},
		{"incremental: a name and a glob", false, []string{"a", globG}, false, false, "named/"},
		{"incremental: both", false, []string{"*", "a"}, false, false, "whole/"},
		{"incremental: of a client that may not have all", false, []string{"*"}, true, false, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, State: tc.state, FullState: map[string]bool{cds: true}})
			first := b.join()
			first.sub(cds, "*")
			b.connect(0)
			first.sub(cds, "a")
			b.connect(1)
			for stream, version := range []string{"whole", "named"} {
				r := response(cds, "+a@1")
				r.State, r.Version = tc.state, version
				if err := b.apply(stream, r); err != nil {
					t.Fatal(err)
				}
			}
			c := b.joinAs(bareForm)
			if tc.screened {
				c.s.JudgedBy(denying{off: everyUse}, false)
			}
			c.sub(cds, tc.subs...)
			var version, server string
			var same, other, bare, unlabelled bool
			b.store.View(func() {
				v := c.c.find(cds).version()
				version, server = v.with(digest.Sum{}), v.server()
				same, other, bare = v.shown(version), v.shown("label/"+digest.Plain(version)), v.shown(digest.Plain(version))
				unlabelled = v.shown(strings.Repeat("0", 32))
			})
			if (server != "") != tc.server || (tc.server && version != server) {
				t.Errorf("the version is %q, and the server's %q", version, server)
			}
			if !tc.server && strings.TrimSuffix(version, digest.Plain(version)) != tc.label {
				t.Errorf("the version is %q, want the label %q", version, tc.label)
			}
			if !same || !bare || unlabelled || other == tc.server {
				t.Errorf("of %q it is shown: %t, behind another label %t, without %t, and something else %t", version, same, other, bare, unlabelled)
			}
		})
	}
}
