package cache

import "testing"

// A store has learned nothing before a server said something, if only that there is nothing.
func TestLearned_SUR1(t *testing.T) {
	empty, filled := newKept(t), newKept(t)
	for _, k := range []*kept{empty, filled} {
		k.listener(0).follow(glob)
		k.demand(WholeType)
		if k.store.Session().Learned() {
			t.Error("it has learned something of a question")
		}
	}
	filled.says(WholeType, "+"+name+"@1")
	empty.says(WholeType, "-"+glob)
	for what, k := range map[string]*kept{"a resource": filled, "an empty collection": empty} {
		if !k.store.Session().Learned() {
			t.Errorf("it has learned nothing of %s", what)
		}
	}
}

// A stream is opened for what clients want, not for a table that nobody asks for.
func TestStreams_SUB11(t *testing.T) {
	k := newKept(t)
	l := k.listener(0)
	k.store.mu.Lock()
	k.store.Table(cds, WholeType)
	k.store.mu.Unlock()
	if ids := k.store.Session().Streams(); len(ids) != 0 {
		t.Errorf("%v are opened for nobody", ids)
	}
	l.follow(glob)
	if ids := k.store.Session().Streams(); len(ids) != 1 || ids[0] != stream(WholeType) {
		t.Errorf("%v are opened", ids)
	}
}
