package downstream

import "time"

// requestBurst is how many seconds' worth of requests are read at once.
const requestBurst = 10 * time.Second

// pace bounds how many requests of a stream are read in a second (LIM-1), beside those that only answer
// responses. It is the time, from the stream's beginning, by which the requests that were read would
// have come if each had come when it may. The handler of the stream uses it.
type pace time.Duration

// next notes a request that was carried out at a time after the stream's beginning, and returns how long
// the stream has to wait before it reads the next one.
func (p *pace) next(at time.Duration, perSecond int) (wait time.Duration) {
	if perSecond <= 0 {
		return 0
	}
	*p = max(*p, pace(at)) + pace(time.Second)/pace(perSecond)
	return max(0, time.Duration(*p)-at-requestBurst)
}
