package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
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
}

// client is what differs between streams and polls beyond a link. All methods but tell are
// called by the session's owner.
type client interface {
	// serves reports whether the server can be asked for a stream's type.
	serves(id wire.StreamID) bool
	// connect begins a link at l.endpoint, in the background. It gives nil if nothing is
	// wanted any more.
	connect(l *line) (link, error)
	// rung, next and elapse are as in source.
	rung()
	next() time.Time
	elapse(now time.Time)
	// settling is called before the Store settles.
	settling(now time.Time)
	// tell is Session.Tell, and end says that Run is over.
	tell(w verdict.Word)
	end()
}

// refusals says what a server that refuses a type means.
type refusals struct {
	backoff time.Duration // how far the back-off of the type grows
	answer  bool          // the refusal is an answer: the server is there
}

// begin implements source.
func (r *remote) begin(ctx context.Context) { r.ctx = ctx }

// end implements source.
func (r *remote) end() {
	r.failback.wg.Wait()
	for _, l := range r.lines {
		l.end(ReasonShutdown)
	}
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
		backoff: backoff.Backoff{Base: cfg.Backoff.Base, Max: cfg.Backoff.Max}, failed: make([]bool, len(cfg.Endpoints)),
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
	for _, l := range r.lines {
		l.admit()
	}
	r.client.rung()
}

// next implements source.
func (r *remote) next() time.Time {
	at := earlier(r.failback.at, r.client.next())
	for _, l := range r.lines {
		at = earlier(earlier(at, l.renewal.due), earlier(l.at, l.standsAt))
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
func (r *remote) tell(w verdict.Word) { r.client.tell(w) }

// resting reports whether nothing is under way on any line.
func (r *remote) resting() bool {
	return !slices.ContainsFunc(r.lines, func(l *line) bool { return !l.resting() })
}

// linked reports whether there is a link, or an attempt at one.
func (r *remote) linked() bool {
	return slices.ContainsFunc(r.lines, func(l *line) bool { return l.link != nil })
}

// probe looks, in the background, whether a better endpoint can be reached. A session at
// rest does not: it begins with the best when it has something to ask.
func (r *remote) probe() {
	if r.resting() {
		r.failback.moveTo(0)
		return
	}
	f := r.failback
	better := f.endpoint
	f.probing = true
	f.wg.Go(func() {
		found, release := better, func() {}
		for endpoint := range better {
			if f.knownBad(endpoint) {
				continue
			}
			hold, ok := r.up.transport.reach(r.ctx, endpoint)
			if ok || r.ctx.Err() == nil {
				r.up.found(endpoint, ok)
			}
			if ok {
				found, release = endpoint, hold
				break
			}
		}
		select {
		case r.session.events <- func() { r.probed(found, release) }:
		case <-r.ctx.Done():
			release()
		}
	})
}

// probed moves the session to a better endpoint if one was found, or looks again later.
// The links are made anew there and resume (RES-12), so that nothing is lost. They use the
// connection that is released afterwards.
func (r *remote) probed(endpoint int, release func()) {
	defer release()
	if !r.failback.found(endpoint) {
		return
	}
	for _, l := range r.lines {
		if l.resting() || l.draining || (l.link != nil && l.endpoint == endpoint) {
			continue // the last: only other lines had been refused there
		}
		l.end(ReasonFailback)
		clear(l.failed)
		l.connect()
	}
	r.session.settle()
}
