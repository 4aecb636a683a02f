package logs

import "sync"

// Once tells what is new from what there was before, for lines that the log has once. The zero Once has room for
// nothing. Its methods may be called from any goroutine.
type Once[K comparable] struct {
	Most int // how much is remembered: nothing beyond that is new

	mu   sync.Mutex
	seen map[K]struct{} // guarded by mu
}

// First reports whether something is new, and remembers it.
func (o *Once[K]) First(what K) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, known := o.seen[what]; known || len(o.seen) >= o.Most {
		return false
	}
	if o.seen == nil {
		o.seen = make(map[K]struct{})
	}
	o.seen[what] = struct{}{}
	return true
}

// Forget has everything be new again.
func (o *Once[K]) Forget() {
	o.mu.Lock()
	defer o.mu.Unlock()
	clear(o.seen)
}
