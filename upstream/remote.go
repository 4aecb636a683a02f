package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// remote is the source of a session whose control plane is made of servers: it connects,
// backs off, and moves between endpoints. It belongs to the session's owner.
type remote struct {
	// Immutable after NewSession.
	session  *Session
	store    Store
	report   *report
	up       *Upstream
	client   client
	refusals refusals

	ctx      context.Context // ends with Run
	lines    []*line         // of the streams that are wanted, or still there
	failback *failback
	unable   time.Time // when the client had nothing to ask for last
	turn     int       // of the links whose first requests other replicas are asked: see wanted
	anew     bool      // the links began anew because Upstream.reuses was set
}

// client has the differences between streams and polls beyond a link. All methods but tell are
// called by the session's owner.
type client interface {
	// serves reports whether the server can be asked for a stream's type.
	serves(id wire.StreamID) bool
	// connect begins a link at l.endpoint, in the background. It gives nil if nothing is
	// wanted any more.
	connect(l *line) (link, error)
	// sent has the resources that the control plane delivered. opening is the first request of a link, which another
	// server may be asked too.
	sent() *delivered
	opening(l *line) *query
	asker() asker
	// rung, next and elapse are as in source.
	rung()
	next() time.Time
	elapse(now time.Time)
	// settling is called before the Store settles.
	settling(now time.Time)
	// tell is Session.Tell, and end says that Run is over.
	tell(w ack.Outcome)
	end()
}

// refusals says how the relay treats a server that refuses a type.
type refusals struct {
	backoff time.Duration // how far the back-off of the type grows
	answer  bool          // the refusal is an answer: the server is there
}

// begin implements source.
func (r *remote) begin(ctx context.Context) {
	r.ctx = ctx
	r.failback.join()
}

// end implements source.
func (r *remote) end() {
	r.failback.wg.Wait()
	for _, l := range r.lines {
		l.end(ReasonShutdown)
	}
	r.up.replicas.leave(&r.failback.seat)
	r.up.entrance.outages.contacts.leave(r)
	r.client.end()
}

// review implements source. It forgets the lines that are idle and not wanted: types are
// the clients' choice, and must not pile up.
func (r *remote) review() State {
	r.lines = slices.DeleteFunc(r.lines, func(l *line) bool {
		gone := l.idle() && !r.store.StreamWanted(l.id)
		if gone {
			l.welcome()
		}
		return gone
	})
	return stateOf(r.lines)
}

// reconcile implements source. There are few streams: two for each type that has a service
// of its own, or two for all.
func (r *remote) reconcile() {
	wanted := r.report.available(r.store.Streams(), r.client.serves)
	for _, id := range wanted {
		if r.line(id) == nil {
			r.lines = append(r.lines, r.newLine(id))
		}
	}
	for _, l := range r.lines {
		l.reconcile(slices.Contains(wanted, l.id))
	}
}

func (r *remote) newLine(id wire.StreamID) *line {
	cfg := &r.up.cfg
	return &line{
		remote: r, id: id, ticket: &ticket{bell: r.session.bell},
		backoff: retry.Backoff{Base: cfg.Backoff.Base, Max: cfg.Backoff.Max},
	}
}

// line finds the line of a stream, nil if there is none.
func (r *remote) line(id wire.StreamID) *line {
	for _, l := range r.lines {
		if l.id == id {
			return l
		}
	}
	return nil
}

// urgent implements source.
func (r *remote) urgent(id wire.StreamID, now time.Time) bool {
	if l := r.line(id); l != nil {
		return l.urgent(now)
	}
	return r.client.serves(id)
}

// rung implements source.
func (r *remote) rung() {
	r.failback.renew()
	r.leaveSilent()
	r.distrustVersions()
	for _, l := range r.lines {
		l.begun()
		l.admit()
	}
	r.client.rung()
}

// next implements source.
func (r *remote) next() time.Time {
	at := notify.Earlier(r.failback.at, r.client.next())
	for _, l := range r.lines {
		at = notify.Earlier(notify.Earlier(at, l.renewal.due), notify.Earlier(notify.Earlier(l.at, l.owed.due), notify.Earlier(l.owed.standsAt, r.queryAt(l))))
	}
	return at
}

// elapse implements source.
func (r *remote) elapse(now time.Time) {
	for _, l := range r.lines {
		l.elapse(now)
	}
	if due(&r.failback.at, now) {
		r.probe()
	}
	r.client.elapse(now)
}

// settling implements source.
func (r *remote) settling(now time.Time) { r.client.settling(now) }

// tell implements source.
func (r *remote) tell(w ack.Outcome) { r.client.tell(w) }

// resting reports whether nothing is under way on any line.
func (r *remote) resting() bool {
	return !slices.ContainsFunc(r.lines, func(l *line) bool { return !l.resting() })
}

// linked reports whether there is a link, or an attempt at one.
func (r *remote) linked() bool {
	return slices.ContainsFunc(r.lines, func(l *line) bool { return l.link != nil })
}

// probe looks, in the background, whether a better replica answers. A session at rest does
// not: it begins with the best when it has something to ask.
func (r *remote) probe() {
	f := r.failback
	if r.resting() {
		f.moveTo(f.order[0])
		return
	}
	better, own, q := f.better(), f.replica, r.wanted()
	f.probing = true
	f.wg.Go(func() {
		var found *replica
		release := func() {}
		r.session.safety.try(logs.PartUpstream, func() { // a panic finds nothing
			for _, x := range better {
				if f.knownBad(x) {
					continue
				}
				if hold, well := r.well(x, own, q); well {
					found, release = x, hold
					break
				}
			}
		})
		select {
		case r.session.events <- func() { r.probed(found, release) }:
		case <-r.ctx.Done():
			release()
		}
	})
}

// findReachable looks, in the background, which replicas of the same priority as x can be reached,
// all at once: x did not answer in time. If none does the next priority has its turn, and does
// not have to wait until each of them has let an attempt wait. It is over before the next
// attempt is.
func (r *remote) findReachable(x *replica) {
	for _, o := range r.up.replicas.peers(x, r.failback.interval/2) {
		r.failback.wg.Go(func() {
			defer r.session.safety.panics.Catch(logs.PartUpstream, nil)
			ctx, cancel := context.WithTimeout(r.ctx, r.up.cfg.ConnectTimeout*3/4)
			defer cancel()
			release, err := r.up.transport.reach(ctx, o)
			if err == nil || r.ctx.Err() == nil {
				r.up.note(o, err)
			}
			if err == nil {
				release()
			}
		})
	}
}

// probed moves the session to a better replica if one was found, or looks again later; x is
// nil then.
// The links are made anew there and resume (RES-12), so that nothing is lost. They use the
// connection that is released afterwards.
func (r *remote) probed(x *replica, release func()) {
	defer release()
	if !r.failback.found(x) {
		return
	}
	r.relocate(x)
}

// relocate begins all links anew at the session's replica.
func (r *remote) relocate(x *replica) {
	for _, l := range r.lines {
		if l.resting() || l.draining || (l.link != nil && l.replica == x) {
			continue // the last: only other lines had been refused there
		}
		l.end(ReasonFailback)
		l.failed = nil
		l.connect()
	}
	r.session.settle()
}
