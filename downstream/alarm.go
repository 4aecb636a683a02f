package downstream

import "time"

// alarm rings a stream at a given time. The zero value is not set.
type alarm struct {
	timer *time.Timer // nil: none was set
	at    time.Time   // zero: the timer has gone off
}

// set has the stream rung at a time, if that is not zero. A timer that is set for earlier stays:
// when it goes off, the stream sets the next one. A stream that is served often sets few.
func (a *alarm) set(at, now time.Time, stream interface{ ring() }) {
	if !now.Before(a.at) {
		a.at = time.Time{}
	}
	switch {
	case at.IsZero():
		if a.at.IsZero() {
			a.timer = nil
		}
		return
	case a.timer == nil:
		a.timer = time.AfterFunc(at.Sub(now), stream.ring)
	case a.at.IsZero(), at.Before(a.at):
		a.timer.Reset(at.Sub(now))
	default:
		return
	}
	a.at = at
}

func (a *alarm) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}
