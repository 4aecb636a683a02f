package retry

import "time"

// Pace bounds how many things are done in a second, after as many at once as come in some seconds. It is the time, from some beginning on, by which what was done would have been done if each had been
// done when it may. The zero Pace has done nothing. Its user has a lock for it, or is the only one.
type Pace time.Duration

// Next notes what was done at a time after the beginning, and returns how long to wait before the next.
// burst is how many seconds' worth may be done at once. perSecond of 0 sets no limit.
func (p *Pace) Next(at time.Duration, perSecond int, burst time.Duration) (wait time.Duration) {
	if perSecond <= 0 {
		return 0
	}
	*p = max(*p, Pace(at)) + Pace(time.Second)/Pace(perSecond)
	return max(0, time.Duration(*p)-at-burst)
}
