package cache

import "testing"

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
