package upstream

import (
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// failback is where a session's attempts go, and its way back to a better replica
// (LOC-6). It belongs to the session's owner.
type failback struct {
	// Immutable after newFailback.
	all      *replicas
	interval time.Duration
	report   *report

	seat

	replica *replica  // where the next attempt goes
	turned  time.Time // when the session turned to it
	at      time.Time // when to look next; zero: not waiting
	probing bool
	wg      sync.WaitGroup // the one probe, and looks which replicas can be reached

	// A replica that takes connections but no streams would have the session
	// leave a good stream for it again and again: each move that did not come to
	// anything doubles the wait for the next one, up to sixteen times.
	moves  int
	target *replica // of the last move
}

const maxDoublings = 4

func newFailback(u *Upstream, s *Session, key string) *failback {
	f := &failback{
		all: u.replicas, interval: u.cfg.FailbackInterval, report: s.report,
		seat: seat{key: key, bell: s.bell},
	}
	f.all.first(&f.seat)
	f.replica = f.order[0]
	return f
}

// join says that the session runs.
func (f *failback) join() {
	f.all.join(&f.seat)
	f.replica = f.order[0]
	f.report.note(func(st *Status) { st.Endpoint = f.replica.name })
}

// renew looks whether replicas came or went. A session that has a better one now turns to
// it as to one that is back; one whose own has left does so too, as soon as another can be
// reached.
func (f *failback) renew() {
	if f.all.renew(&f.seat) {
		f.schedule()
	}
}

// left reports whether the session's replica is none any more.
func (f *failback) left() bool { return !slices.Contains(f.order, f.replica) }

// openingTimeout bounds how long a stream may take to be opened: where there is another
// server, no longer than an answer.
func (f *failback) openingTimeout(cfg *Config) time.Duration {
	if cfg.Keepalive.Response == 0 || len(f.order) < 2 {
		return cfg.ConnectTimeout
	}
	return min(cfg.ConnectTimeout, cfg.Keepalive.Response)
}

// better are the replicas that are better than the session's.
func (f *failback) better() []*replica {
	if i := slices.Index(f.order, f.replica); i >= 0 {
		return f.order[:i]
	}
	return f.order
}

// arrived says that an attempt at a replica came to something.
func (f *failback) arrived(x *replica) {
	if x == f.target {
		f.moves = 0
	}
}

// begin goes to the replica that is best for a session of which nothing is under way: the
// first that is not known to be unreachable, so that a new scope does not wait for the
// connect timeout of one of which the others know.
func (f *failback) begin() {
	if i := slices.IndexFunc(f.order, f.hopeful); i >= 0 {
		f.moveTo(f.order[i])
		return
	}
	f.moveTo(f.order[0])
}

// hopeful reports whether a replica is not known to be unreachable.
func (f *failback) hopeful(x *replica) bool { return !f.all.failedWithin(x, 2*f.interval) }

// follow goes where an outage has ended: to x, or to one of the same priority that is better
// and not known to be unreachable. x may have left, or be nil.
func (f *failback) follow(x *replica) {
	i := slices.IndexFunc(f.order, func(o *replica) bool {
		return o == x || x != nil && o.endpoint.priority == x.endpoint.priority && f.hopeful(o)
	})
	if i < 0 {
		f.begin()
		return
	}
	f.moveTo(f.order[i])
}

// moveTo makes a replica the one for new attempts.
func (f *failback) moveTo(x *replica) {
	was := f.replica
	if x == was {
		return
	}
	known := !was.provisional() || !f.left() // else it was the name of x, before that was looked up
	f.replica, f.turned = x, time.Now()
	f.report.note(func(st *Status) { st.Endpoint = x.name })
	if known {
		f.report.note(func(st *Status) { st.EndpointChanges++ })
		f.report.obs.EndpointChanged(was.name, x.name)
		f.report.log.Info("turning to another endpoint", "from", was.name, "to", x.name)
	}
	f.schedule()
}

// spare goes to the replica that failed longest ago if another session has tried this one's in vain since it turned
// there. In an outage one stream is tried at a time: a session that tries a replica again which has just failed costs
// the others that time, and a replica that takes connections and answers nothing is given more of it each time.
func (f *failback) spare() {
	if f.all.failedSince(f.replica, f.turned) {
		f.moveTo(f.all.longestAgo(f.order))
	}
}

// moveOn gives the other replicas their turn after a line's attempt at one failed.
// failed has those where the line's attempts did; with no other left it is emptied, and
// all begins with the best again. It says whether to try at once, which only a replica
// that could not be reached is a reason for.
func (f *failback) moveOn(x *replica, failed *[]*replica, unreachable bool) (atOnce bool) {
	tried := func(o *replica) bool { return slices.Contains(*failed, o) }
	if !tried(x) {
		*failed = append(*failed, x)
	}
	if f.replica == x { // else another line has moved on already
		i := slices.IndexFunc(f.order, func(o *replica) bool { return !tried(o) && (f.hopeful(o) || f.alone(o)) })
		if i < 0 {
			i = slices.IndexFunc(f.order, func(o *replica) bool { return !tried(o) })
		}
		f.moveTo(f.order[max(0, i)])
	}
	if tried(f.replica) {
		*failed = nil
		return false
	}
	return unreachable
}

// alone reports whether there is no other replica of the same priority. Such a one is always
// tried before those of the next.
func (f *failback) alone(x *replica) bool {
	return !slices.ContainsFunc(f.order, func(o *replica) bool { return o != x && o.endpoint.priority == x.endpoint.priority })
}

// schedule sets when to look for a better replica, if there is one.
func (f *failback) schedule() {
	switch {
	case f.replica == f.order[0]:
		f.at = time.Time{}
	case f.at.IsZero() && !f.probing:
		f.at = time.Now().Add(retry.Spread(f.interval << min(f.moves, maxDoublings)))
	}
}

// knownBad says that a session of the same upstream has just tried a replica in vain.
// Then this one does not, so that a thousand scopes do not probe a thousand times as
// often.
func (f *failback) knownBad(x *replica) bool { return f.all.failedWithin(x, f.interval/2) }

// found ends a probe, which found x, or nothing. It goes to x if that is better, and says
// whether it is; if not there is another probe later.
func (f *failback) found(x *replica) bool {
	f.probing = false
	if x == nil || !slices.Contains(f.better(), x) {
		f.schedule()
		return false
	}
	f.moves++
	f.target = x
	f.moveTo(x)
	return true
}
