package connections

import (
	"iter"
	"net"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// Limits may change while clients are connected.
type Limits struct {
	Connections quota.Limit
	PerSecond   int // new ones that are served; 0: no limit
}

const (
	// burst is how many seconds' worth of connections are served at once: a fleet of some thousands that
	// comes back does not wait at all.
	burst = 10 * time.Second
	// patience is how long a connection waits. gRPC gives up after 20 seconds, Envoy after 5: the client
	// of a connection that waited for so long has gone.
	patience = 20 * time.Second
)

// Limit bounds the connections of all its listeners. Its methods may be called from any goroutine.
type Limit struct {
	observer Observer

	mu      sync.Mutex // guards what follows
	limits  Limits
	wake    []chan<- struct{}  // of the listeners, which wait for next
	present map[*Conn]struct{} // the connections, those that wait too
	usage   quota.Usage        // of them
	waiting int
	began   time.Time // of served
	served  retry.Pace
	next    time.Time // when the next connection may be served; zero: at once
}

// New makes a limit.
func New(l Limits, observer Observer) *Limit {
	return &Limit{observer: observer, began: time.Now(), limits: l, present: make(map[*Conn]struct{})}
}

// Set changes the limits. Connections beyond them stay.
func (l *Limit) Set(limits Limits) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if limits.PerSecond != l.limits.PerSecond { // what was served counts at the old rate
		l.served, l.began, l.next = 0, time.Now(), time.Time{}
	}
	l.limits = limits
	for _, ready := range l.wake {
		notify.Signal(ready)
	}
}

// newConn makes a connection, which is not counted yet.
func (l *Limit) newConn(conn net.Conn) *Conn {
	now := time.Now()
	c := &Conn{Conn: conn, left: l.leave, observer: l.observer, came: now, settled: now}
	c.ready.of(conn)
	return c
}

// Count tells how many connections there are, and how many of them wait until they are served.
func (l *Limit) Count() (present, waiting int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.present), l.waiting
}

// come counts a connection, unless there are too many.
func (l *Limit) come(c *Conn) quota.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	v := l.usage.Admit(l.limits.Connections, len(l.present), 1, c.who, l.all())
	if v == quota.Admitted {
		l.present[c] = struct{}{}
	}
	return v
}

// identify counts a connection for the address that is known of it now, unless that has its share.
func (l *Limit) identify(c *Conn, who quota.Client) quota.Result {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.present[c]; !ok {
		return quota.Admitted // it is closed
	}
	delete(l.present, c)
	l.usage.Release(l.limits.Connections, len(l.present), 1, c.who)
	c.who = who
	v := l.usage.Admit(l.limits.Connections, len(l.present), 1, who, l.all())
	if v == quota.Admitted {
		l.present[c] = struct{}{}
	}
	return v
}

// leave counts a connection no longer.
func (l *Limit) leave(c *Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.present[c]; ok {
		delete(l.present, c)
		l.usage.Release(l.limits.Connections, len(l.present), 1, c.who)
	}
}

// all lists who has connections. The caller holds mu.
func (l *Limit) all() iter.Seq2[quota.Client, int] {
	return func(yield func(quota.Client, int) bool) {
		for c := range l.present {
			if !yield(c.who, 1) {
				return
			}
		}
	}
}

// reasonOf is why a verdict has a connection refused.
func reasonOf(v quota.Result) Reason {
	if v == quota.Shared {
		return Share
	}
	return TooMany
}

// mayServe reports whether a connection may be served now, or how long to wait. The caller holds mu.
func (l *Limit) mayServe(now time.Time) (wait time.Duration) { return max(0, l.next.Sub(now)) }

// serves notes that a connection is served. The caller holds mu.
func (l *Limit) serves(now time.Time) {
	l.next = time.Time{}
	if wait := l.served.Next(now.Sub(l.began), l.limits.PerSecond, burst); wait > 0 {
		l.next = now.Add(wait)
	}
}
