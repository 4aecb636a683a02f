package cache

import (
	"fmt"
	"testing"
)

// A panic while content changes releases the store's locks, and leaves the store usable.
func TestChange_SUR6(t *testing.T) {
	s := New(Limits{}, nil).Open(Source{})
	func() {
		defer func() {
			if recover() != "a change" {
				t.Error("the panic did not go on")
			}
		}()
		s.change(func() { panic("a change") })
	}()
	if !s.applyMu.TryLock() {
		t.Fatal("applyMu is held")
	}
	s.applyMu.Unlock()
	s.Turn()
	if err := s.Check(); err != nil {
		t.Error(err)
	}
}

// A response that brings content to many is looked at up to a bound, and what nobody subscribes to does not
// count.
func TestBrought_ACK7(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream)
	l.follow(Wildcard)
	var members, named []string
	for i := range maxBrought + 2 {
		members, named = append(members, fmt.Sprintf("+a%d@1", i)), append(named, fmt.Sprintf("+b%d@1", i))
	}
	k.says(WholeType, members...)
	if got := len(k.store.changes.brought); got != maxBrought {
		t.Errorf("%d are remembered, want %d", got, maxBrought)
	}
	k.says(ByName, named...)
	if got := len(k.store.changes.brought); got != 0 {
		t.Errorf("%d are remembered that nobody subscribes to", got)
	}
}
