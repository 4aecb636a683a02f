package cache

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
)

// holding is a table that holds new content of one name of a glob, and the removals of another one and of a name
// elsewhere.
func holding() *heldBack {
	h := new(heldBack)
	h.names.Put(name, hold.Fate{Resource: words.Resource(cds, name+"@2")})
	h.names.Put(globTwo, hold.Fate{Name: globTwo, Loss: true})
	h.names.Put("n", hold.Fate{Name: "n", Loss: true})
	return h
}

// What is held of a name is content or a removal, or nothing (SUR-3).
func TestHeldBack_SUR3(t *testing.T) {
	for _, tc := range []struct {
		name             string
		h                *heldBack
		key              string
		content, removes bool
	}{
		{"content", holding(), name, true, false},
		{"a removal", holding(), globTwo, false, true},
		{"of another name", holding(), "x", false, false},
		{"without any", new(heldBack), name, false, false},
		{"of a table that never held anything", nil, name, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, content := tc.h.content(tc.key); content != tc.content {
				t.Errorf("content is held: %t", content)
			}
			e := newEntry(tc.key)
			if removes := tc.h.removes(e); removes != tc.removes {
				t.Errorf("a removal is held: %t", removes)
			}
			if has := tc.h.has(e); has != (tc.content || tc.removes) {
				t.Errorf("something is held: %t", has)
			}
		})
	}
}

// What is held goes with the entry that nobody wants, unless it may come as a new member of a collection.
func TestHeldBackOfUnused_GATE4(t *testing.T) {
	for _, tc := range []struct {
		name   string
		state  State
		member bool
		stays  bool
	}{
		{"there, of no collection", Present, false, false},
		{"there, of a collection", Present, true, false},
		{"not there, of no collection", Absent, false, false},
		{"not there, of a collection", Absent, true, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h, e := holding(), newEntry(name)
			e.state = tc.state
			h.dropUnused(e, tc.member)
			if h.has(e) != tc.stays {
				t.Errorf("it is still held: %t", !tc.stays)
			}
		})
	}
}

// With a collection goes what is held of its names, but of those that are there still.
func TestHeldBackOfCollection_SUR3(t *testing.T) {
	h := holding()
	c := &Collection{table: &Table{kind: ByName}, key: glob}
	h.colls = with(h.colls, c)
	h.leave(c, map[string]*Entry{globTwo: newEntry(globTwo)})
	if len(h.colls) != 0 {
		t.Error("losses of the collection are held still")
	}
	for key, stays := range map[string]bool{name: false, globTwo: true, "n": true} {
		if h.has(newEntry(key)) != stays {
			t.Errorf("what is held of %q stays: %t", key, !stays)
		}
	}
}
