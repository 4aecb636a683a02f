package cache

import "time"

// SetLimits replaces the limits. What exceeds the new ones and is watched by nobody is
// evicted before it returns; what has been idle for too long by them, as soon as Run
// comes to it.
func (c *Cache) SetLimits(limits Limits) {
	c.mu.Lock()
	c.limits = limits
	c.mu.Unlock()
	c.trim()
	c.wakeUp()
}

// SetTimes replaces Source.Quiet and Source.Absent. Clocks that run count by the new
// ones; a clock that the Source has not, or has, stays so: neither becomes or was zero.
func (s *Store) SetTimes(quiet, absent time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.source.Quiet > 0 && quiet > 0 {
		s.source.Quiet = quiet
	}
	if s.source.Absent > 0 && absent > 0 {
		s.source.Absent = absent
	}
	s.signalDemand() // the session asks anew when to Settle
}
