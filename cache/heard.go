package cache

// maxBrought bounds the entries of which a response remembers that it brought their content.
const maxBrought = 64

// maxAsked bounds the clients that are looked at to learn whether one of them is sent what a
// response brought.
const maxAsked = 64

// bring notes that the present response brings content, to somebody who subscribes to it.
func (s *Store) bring(e *entry) {
	if len(s.brought) < maxBrought && (len(e.subs) > 0 || (e.member() && len(e.coll.followers) > 0)) {
		s.brought = append(s.brought, e)
	}
}

// Heard reports whether the last Apply or ApplyState brought content that goes to a client
// now: not what nobody subscribes to, and not what is held back since the lists of all who do
// would lack something else (RES-2). Where there are many who subscribe, it takes for granted
// that one of them is sent it.
func (s *Store) Heard() bool {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.mu.RLock()
	defer s.mu.RUnlock()
	asked := 0
	for _, e := range s.brought {
		if e.hears(&asked) {
			return true
		}
	}
	return false
}

// hears reports whether the content of e goes to somebody now. It counts who was asked.
func (e *entry) hears(asked *int) bool {
	if !e.there() {
		return false // gone by the same response
	}
	goes := func(w *watch) bool {
		*asked++
		return *asked > maxAsked || !(w.lacksAll() || w.lacksHeld())
	}
	for _, sub := range e.subs {
		if goes(sub.watch) {
			return true
		}
	}
	if !e.member() {
		return false
	}
	for _, f := range e.coll.followers {
		if goes(f.watch) {
			return true
		}
	}
	return false
}
