package cache

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// Versions of several resources are others in another scope. Those of none are the same in all scopes (ACK-4).
func TestVersionOf_ACK4(t *testing.T) {
	total := digest.Of("x")
	open := func(scope string) *Store { return New(Limits{}, nil).Open(Source{Scope: scope}) }
	if got := open("").VersionOf(total, nil); got != total.String() {
		t.Errorf("without a scope the version is %q, want the digest %q", got, total)
	}
	one, other := open("a").VersionOf(total, nil), open("b").VersionOf(total, nil)
	if one == other || one == total.String() || one != open("a").VersionOf(total, nil) {
		t.Errorf("in two scopes the versions are %q and %q", one, other)
	}
	for _, scope := range []string{"", "a"} {
		if got := open(scope).VersionOf(digest.Sum{}, nil); got != (digest.Sum{}).String() {
			t.Errorf("in scope %q nothing has the version %q", scope, got)
		}
	}
	s := open("")
	table := s.Table(cds, WholeType)
	table.serverVersions.noteSystem("7")
	table.serverVersions.noteSystem("") // a response that does not say it
	if got := s.VersionOf(total, table); got != "7/"+total.String() || !strings.HasPrefix(got, table.SystemVersion()) {
		t.Errorf("the version of a server that says one is %q", got)
	}
}
