package upstream

import (
	"sync"
	"time"
)

// OutageFresh is how long the word of an attempt that failed counts. Nobody tries while no
// client waits, and the next client that comes must not be told of an error of long ago. It is
// longer than the longest pause between two attempts.
const OutageFresh = longBackoff + 5*time.Second

// Outage tells all scopes of a control plane whether it can be reached.
type Outage struct {
	// Since is when it could be reached no longer; zero while it can be, and before the
	// first attempt ended. Where nobody tried for OutageFresh it is when the next client
	// came.
	Since time.Time
	// Tried is when the last attempt since then failed. Nobody tries while no client waits.
	Tried time.Time
	// Err is why the last attempt since then failed, or the last stream ended; nil while
	// Since is zero.
	Err *ConnectionError
	// Answered is when it last answered, on any stream or poll, or took a stream for long
	// enough; zero before the first time. Contact has answers only.
	Answered time.Time
}

// Outages knows whether a control plane can be reached. An outage
// begins when an attempt fails, or a stream is lost, and no other stream is good; it ends
// with the first answer. The zero Outages is ready. Its methods may be called from any
// goroutine.
type Outages struct {
	contacts contacts

	mu     sync.Mutex
	now    Outage
	first  time.Time // when it answered first
	good   int       // streams that were answered and are open
	denied time.Time
}

// Now returns the outage as it is now.
func (o *Outages) Now() Outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.now
}

// Denied is when the server last let a stream not in, whatever became of others; zero before
// the first time.
func (o *Outages) Denied() time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.denied
}

// fail says that an attempt failed, or that a stream was lost that is not counted any
// more. began is set if an outage began.
func (o *Outages) fail(err *ConnectionError) (down, began bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err.Reason == ReasonDenied {
		o.denied = time.Now()
	}
	if o.good > 0 {
		return false, false
	}
	if began = o.now.Since.IsZero(); began {
		o.now.Since = time.Now()
	}
	o.now.Err, o.now.Tried = err, time.Now()
	return true, began
}

// answer says that the control plane answered, or took a stream for long enough. ended is
// set if an outage ended.
func (o *Outages) answer(at time.Time) (ended bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	ended = !o.now.Since.IsZero()
	o.now = Outage{Answered: at}
	if o.first.IsZero() {
		o.first = at
	}
	return ended
}

// known reports whether the control plane answered first so long ago that its streams would have ended if it
// did not keep them.
func (o *Outages) known(now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return !o.first.IsZero() && now.Sub(o.first) >= probeStands
}

// renew begins an outage anew if nobody has tried for so long that it may be over: a client
// that comes then is not to be told of the old one.
func (o *Outages) renew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.now.Since.IsZero() && time.Since(o.now.Tried) > OutageFresh {
		o.now.Since = time.Now()
	}
}

// count adds streams that are good, or takes them off.
func (o *Outages) count(change int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.good += change
}

// down reports whether there is an outage.
func (o *Outages) down() bool { return !o.Now().Since.IsZero() }
