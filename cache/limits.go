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

// SetTimes replaces the times of the Source by those of another one. Clocks that run count
// by the new ones; a clock that the Source has not, or has, stays so: none becomes or was
// zero.
func (s *Store) SetTimes(by *Source) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for is, becomes := range map[*time.Duration]time.Duration{
		&s.source.Quiet: by.Quiet, &s.source.ResumeQuiet: by.ResumeQuiet, &s.source.Absent: by.Absent,
	} {
		if *is > 0 && becomes > 0 {
			*is = becomes
		}
	}
	s.signalDemand() // the session asks anew when to Settle
}
