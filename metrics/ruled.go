package metrics

import "sync"

// ruled has the series of each rule in force. The zero value has none. Its methods may be called
// from any goroutine.
type ruled[S any] struct {
	mu sync.RWMutex
	of map[string]S // guarded by mu; by the rule's name
}

// replace sets the rules in force: begin makes the series of a rule, end deletes those of a rule
// that is not in force any more.
func (r *ruled[S]) replace(names []string, begin func(name string) S, end func(name string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]S, len(names))
	for _, name := range names {
		now[name] = begin(name)
	}
	for name := range r.of {
		if _, stays := now[name]; !stays {
			end(name)
		}
	}
	r.of = now
}

// with calls f for the series of a rule, unless the rule is not in force.
func (r *ruled[S]) with(rule string, f func(S)) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if of, there := r.of[rule]; there {
		f(of)
	}
}
