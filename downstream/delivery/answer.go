package delivery

// dropUnfollowed forgets the answers that no collection owes any more.
func (a *answers) dropUnfollowed(s *subscribed) {
	if s.wildcard != nil {
		return
	}
	for key := range *a {
		if s.globs.of(key) == nil {
			a.drop(key)
		}
	}
}

// due reports whether an answer is due: one that there is nothing, or one with content.
func (a answers) due(s *subscribed, away bool) bool {
	for _, n := range a {
		if e, known := s.lookup(n); known && away == (e == nil) {
			return true
		}
	}
	return false
}
