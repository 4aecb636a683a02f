package cache

import (
	"maps"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// presents returns the versions that a new stream presents. ok is false if they have no room.
func (k *kept) presents(limit int) (versions map[string]string, ok bool) {
	k.Helper()
	t := k.store.FindTable(cds, ByName)
	k.store.mu.Lock()
	defer k.store.mu.Unlock()
	return t.versionsHeld(limit)
}

// Versions are presented if they have room in a request, to the byte, with the names of collections. Without any there is
// nothing that could be left out (RES-12, RES-14).
func TestVersionsLimit_RES12_RES14(t *testing.T) {
	const each = 12
	for name, tc := range map[string]struct {
		begin func(k *kept, l *listener)
		size  int
		want  map[string]string
	}{
		"names": {func(k *kept, l *listener) {
			l.watch("name")
			l.watch("longer-name")
			k.demand(WholeType)
			k.says(WholeType, "+name@version", "+longer-name@1")
		}, each + len("nameversion") + each + len("longer-name1"), map[string]string{"name": "version", "longer-name": "1"}},
		"a collection": {func(k *kept, l *listener) {
			l.follow(glob)
			k.demand(WholeType)
			k.says(WholeType, "+"+name+"@version")
		}, each + len(glob) + each + len(name+"version"), map[string]string{name: "version"}},
		"content that is held back": {func(k *kept, l *listener) {
			l.follow(glob)
			k.demand(WholeType)
			k.says(WholeType, "-"+glob)
			k.freeze()
			k.says(WholeType, "+"+name+"@version")
		}, each + len(glob) + each + len(name+"version"), map[string]string{name: "version"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := newKept(t)
			tc.begin(k, k.listener(NeedsStream))
			for limit, fits := range map[int]bool{0: true, tc.size: true, tc.size - 1: false} {
				got, ok := k.presents(limit)
				if ok != fits || ok && !maps.Equal(got, tc.want) {
					t.Errorf("with room for %d bytes %v are presented: %t", limit, got, ok)
				}
			}
		})
	}
	k := newKept(t)
	k.listener(NeedsStream).follow(glob)
	if got, ok := k.presents(1); len(got) != 0 || !ok {
		t.Errorf("without content %v are presented: %t", got, ok)
	}
}

// A version is not presented that stands for what clients have, and for other content that is held back (ACK-4, GATE-4).
func TestHeldVersions_ACK4_GATE4(t *testing.T) {
	for said, want := range map[string]string{"+a@2:x": "2", "+a@1:y": ""} {
		k := newKept(t)
		k.listener(NeedsStream).watch("a")
		k.demand(WholeType)
		k.says(WholeType, "+a@1:x")
		k.freeze()
		k.says(WholeType, said)
		if got, ok := k.presents(0); !ok || len(got) != 1 || got["a"] != want {
			t.Errorf("after %q the versions %v are presented, want %q", said, got, want)
		}
	}
}

// Nothing is subscribed to for a table of which nothing is wanted any more (SUB-11).
func TestRestartOfNothing_SUB11(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.watch("a")
	k.demand(WholeType)
	l.unwatch("a")
	k.store.Session().Shed(stream(WholeType), cds, 1)
	k.demand(WholeType)
	if subs := k.store.Session().Restart(stream(WholeType), 0); len(subs) != 0 {
		t.Errorf("a new stream begins with %+v", subs)
	}
	k.check()
}

// What a store held counts no more when it is closed, pinned or not, and what others hold does.
func TestClose_SUB11(t *testing.T) {
	c := New(Limits{}, nil)
	stays, goes := &kept{t, c.Open(Source{})}, &kept{t, c.Open(Source{})}
	for _, k := range []*kept{stays, goes} {
		k.listener(NeedsStream).follow(Wildcard)
		k.demand(WholeType)
	}
	stays.says(WholeType, "+a@1")
	resources, bytes := c.Resources(), c.Bytes()
	if want := words.Resource(cds, "a@1").Size(); resources != 1 || bytes != int64(want) {
		t.Fatalf("%d resources of %d bytes, want one of %d", resources, bytes, want)
	}
	goes.store.Pin(cds, Name{Key: "pinned"})
	goes.demand(ByName)
	goes.says(ByName, "+pinned@1")
	goes.says(WholeType, "+b@1", "+"+strings.Repeat("c", 100)+"@1")
	if goes.store.Close(); c.Resources() != resources || c.Bytes() != bytes {
		t.Errorf("%d resources of %d bytes are left, want %d of %d", c.Resources(), c.Bytes(), resources, bytes)
	}
}
