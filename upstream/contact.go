package upstream

import (
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Contact says how the servers of a control plane answer the relay, all scopes together (SUR-2).
type Contact struct {
	// Answered is when a server answered last: on a stream, to a poll, or to a probe. It is
	// zero before the first time. A connection or a stream that a server accepts is no answer.
	Answered time.Time
	// Unanswered is when the relay wrote the oldest request that a server owes an answer
	// to; zero: there is none. To a server that has not answered yet the first request on
	// a stream counts. Later only a request counts that the server must answer.
	Unanswered time.Time
	// Open is when the relay wrote the oldest request without versions that nothing followed on its stream. It is
	// before Unanswered, or stands alone: a server that does not have the resources of such a request may be silent. One
	// that hangs is silent too.
	Open time.Time
	// Since is when the relay began to know the control plane.
	Since time.Time
	// Took are the times that the last answers took to requests that presented no version.
	Took []Took
}

// Took is how long an answer took.
type Took struct {
	At  time.Time // of the answer
	For time.Duration
}

// mostTook is how many of them are kept.
const mostTook = 100

// contacts keeps the Contact of a control plane. The zero contacts is ready. Its methods may be
// called from any goroutine.
type contacts struct {
	mu       sync.Mutex
	since    time.Time
	answered time.Time
	open     map[any]openRequest // the oldest request, by the line or the replica that waits for its answer
	mute     map[any]time.Time   // since when no server answers, by the remote that found it
	took     []Took              // the last mostTook, in no order
	tookNext int                 // which of them is replaced next
}

// paid notes how long an answer took.
func (c *contacts) paid(at time.Time, took time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.took) < mostTook {
		c.took = append(c.took, Took{at, took})
		return
	}
	c.took[c.tookNext] = Took{at, took}
	c.tookNext = (c.tookNext + 1) % mostTook
}

// begin notes that the control plane is known, once.
func (c *contacts) begin(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.since = notify.Earlier(c.since, at)
}

// hear notes an answer.
func (c *contacts) hear(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if at.After(c.answered) {
		c.answered = at
		clear(c.mute)
	}
}

// silent notes that a server left a request unanswered. That is owed until any server answers: a new stream and the next
// query do not begin it anew.
func (c *contacts) silent(by any, since time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.answered.Before(since) {
		return
	}
	if c.mute == nil {
		c.mute = make(map[any]time.Time)
	}
	c.mute[by] = notify.Earlier(c.mute[by], since)
}

// leave forgets what by found.
func (c *contacts) leave(by any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.mute, by)
}

// openRequest is a request that nothing followed.
type openRequest struct {
	since time.Time
	owed  bool // the server must answer
}

// owe notes the oldest request that by waits for; zero: for none. owed says that the server must answer.
func (c *contacts) owe(by any, since time.Time, owed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if since.IsZero() {
		delete(c.open, by)
		return
	}
	if c.open == nil {
		c.open = make(map[any]openRequest)
	}
	c.open[by] = openRequest{since, owed || c.open[by].owed || c.answered.IsZero()}
}

// Contact is how the servers answer now. Outages that are given to the next Upstream keep
// it.
func (o *Outages) Contact() Contact {
	c := &o.contacts
	c.mu.Lock()
	defer c.mu.Unlock()
	now := Contact{Answered: c.answered, Since: c.since, Took: slices.Clone(c.took)}
	for _, r := range c.open {
		now.Open = notify.Earlier(now.Open, r.since)
		if r.owed {
			now.Unanswered = notify.Earlier(now.Unanswered, r.since)
		}
	}
	for _, since := range c.mute {
		now.Open, now.Unanswered = notify.Earlier(now.Open, since), notify.Earlier(now.Unanswered, since)
	}
	return now
}
