package cache

// change changes content under the store's locks, rings the clients, and evicts what exceeds
// the limits. If apply panics, clients are rung of what it changed before, and the locks are
// released (SUR-6).
func (s *Store) change(apply func()) {
	for _, h := range s.changeAndTrim(apply) {
		s.cache.observer.Held(h)
	}
}

func (s *Store) changeAndTrim(apply func()) (held []Held) {
	s.applyMu.Lock()
	defer s.applyMu.Unlock()
	s.changeAndRing(apply)
	s.cache.trim()
	held, s.changes.held = s.changes.held, nil
	return held
}

func (s *Store) changeAndRing(apply func()) {
	defer s.journal.flush()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.changes.finish()
	apply()
}
