package upstream

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// queryAt is when the replica of a line is asked for something that it delivered, if it says nothing; zero: never.
func (r *remote) queryAt(l *line) time.Time {
	if r.up.cfg.Keepalive.Response == 0 || !l.serving() || !r.store.Awaited() {
		return time.Time{}
	}
	at := l.replica.answers.due()
	if at.IsZero() {
		return at
	}
	return notify.Later(at, notify.Later(l.owed.opened, r.unable).Add(quietTime))
}

// query asks the replica of a line for something that it delivered, in the background. It reports whether this session
// does, or another one. quiet is as for answers.begin.
func (r *remote) query(l *line, now time.Time, quiet bool) bool {
	q := r.client.sent().query()
	if q == nil {
		r.unable = now
		return false
	}
	x := l.replica
	if !x.answers.begin(r, now, quiet) {
		return !x.answers.due().IsZero()
	}
	r.up.entrance.outages.contacts.owe(x, now, true)
	r.ask(l, x, now, q, attempt{here: true, quiet: true})
	return true
}

// fallback finds out, in the background, whether another server answers the query that the server of a line does not.
// A server that owes an answer is asked once more on a fresh stream, unless that would cost it the other one. If it owes
// none, and has answered any session since, the resources of the query may not be there.
func (r *remote) fallback(l *line, now time.Time) {
	x, o := l.replica, &l.owed
	q := r.client.opening(l)
	if q == nil || !o.sure && (len(r.failback.order) < 2 || x.answers.last().After(o.since)) {
		return
	}
	begin, here := func() bool { return x.answers.begin(r, now, false) }, o.sure
	if x.answers.due().IsZero() {
		begin, here = x.answers.pass, false
	}
	if !begin() {
		o.due = now.Add(r.up.cfg.Keepalive.Response)
		return
	}
	r.ask(l, x, o.since, q, attempt{here: here})
}

// attempt says how the servers are asked.
type attempt struct {
	here  bool // that of the line is asked first: it owes an answer
	quiet bool // nothing is owed on the line: the server said nothing for long
}

// ask asks the replica of a line, and then the others where it does not answer.
func (r *remote) ask(l *line, x *replica, since time.Time, q *query, a attempt) {
	began, order := l.owed.began, r.failback.order
	r.failback.wg.Go(func() {
		done := sync.OnceFunc(x.answers.done)
		defer done()
		var answer *wire.Response
		var found *replica
		err := errSilent
		if a.here {
			answer, err = r.send(r.ctx, x, q, 0)
		}
		if errors.Is(err, errSilent) && !(a.quiet && x.answers.last().After(since)) {
			found = r.first(order, x, q)
		}
		done()
		r.session.post(r.ctx, func() {
			if a.quiet || l.link != nil && l.owed.began.Equal(began) {
				r.asked(l, x, since, q, a, err, found)
			}
			if name, is := q.contradicts(answer); is {
				r.versionsReused(x, name)
			}
		})
	})
}

// asked takes the result: err of the server of a line, and found, another server that answers.
func (r *remote) asked(l *line, x *replica, since time.Time, q *query, a attempt, err error, found *replica) {
	heard := x.answers.last().After(since)
	switch {
	case err == nil, errors.Is(err, errUnwilling):
		if !a.quiet && l.owed.sure && !l.again(unansweredPause) { // the server has lost the stream
			l.askLater()
		}
	case !errors.Is(err, errSilent): // the query failed on its way, as at a proxy whose server is gone
		if !a.quiet && !l.owed.since.IsZero() {
			l.owed.due = time.Now().Add(r.up.cfg.Keepalive.Response)
		}
	case found != nil && (!heard || a.here && !a.quiet):
		if !heard {
			r.silent(x, since)
		}
		if r.failback.replica == x {
			r.failback.moveTo(found)
			r.relocate(found)
		}
	case heard && a.quiet:
	case heard, !a.here:
		l.askLater()
	default:
		r.unanswered(l, x, since, q)
	}
}

// askLater has the unanswered query of the line count for nothing. The line sends it again later.
func (l *line) askLater() {
	if !l.owed.since.IsZero() {
		l.owed.sure, l.owed.due = false, time.Now().Add(l.remote.failback.interval)
	}
}

// unanswered takes a query that no server answered. It is shown. It may be about something that is lost without
// a word, so it counts against none, and they are asked for something else. A server that is alone and answers nothing
// else is left for a moment: a fresh connection may lead to another process.
func (r *remote) unanswered(l *line, x *replica, since time.Time, q *query) {
	now, d := time.Now(), r.client.sent()
	other := d.unanswered(q)
	l.askLater()
	alone := len(r.failback.order) == 1
	if alone && !x.answers.maySilence(now) {
		return
	}
	if other && x.answers.begin(r, now, false) {
		r.ask(l, x, since, d.query(), attempt{here: true, quiet: true})
		return
	}
	if !alone {
		return
	}
	r.silent(x, since)
}

// silent notes that a replica has not answered since a time.
func (r *remote) silent(x *replica, since time.Time) {
	r.up.silent(x, since, r.report.obs)
	r.up.entrance.outages.contacts.silent(r, since)
}

// send asks a replica on a stream or poll of its own.
func (r *remote) send(ctx context.Context, x *replica, q *query, stay time.Duration) (*wire.Response, error) {
	begun := time.Now()
	return r.session.safety.ask(ctx, r.client.asker(), x, q, terms{
		deadline: begun.Add(r.up.cfg.Keepalive.Response), stay: stay,
		heard: func(at time.Time) {
			r.report.obs.Answered(at.Sub(begun))
			r.up.heard(x, at)
		},
	})
}

// leaveSilent ends the links to replicas that have fallen silent.
func (r *remote) leaveSilent() {
	for _, l := range r.lines {
		if l.link == nil || l.draining {
			continue
		}
		if _, found := l.replica.answers.silence(); found.After(l.owed.began) {
			l.fail(l.failure(ReasonSilent, errSilent), true, false)
		}
	}
}

// versionsReused notes that the control plane uses a version for several contents.
func (r *remote) versionsReused(x *replica, name string) {
	if r.up.reuses.Swap(true) {
		return
	}
	r.report.obs.VersionsReused()
	r.report.log.Warn("control plane uses a version again for another content: asking for everything without versions from now on",
		"endpoint", x.name, "name", name)
	r.up.replicas.tell()
	r.session.ring()
}

// distrustVersions has everything sent again once it is known that the control plane uses
// versions for several contents (ACK-4). Perhaps the control plane never confirmed the cached content.
func (r *remote) distrustVersions() {
	if r.anew || !r.up.reuses.Load() {
		return
	}
	r.anew = true
	for _, l := range r.lines {
		if l.serving() {
			l.end(ReasonResubscribe)
			l.at = time.Now().Add(r.up.entrance.follow())
		}
	}
}

// wanted returns the query for other replicas: for a resource that was delivered. Where none was, or no server answers
// for it, each turn it is the first query of another link. It is nil if the session asks for nothing.
func (r *remote) wanted() *query {
	d := r.client.sent()
	q := d.query()
	if q != nil && !d.ignored(q) {
		return q
	}
	var all []*query
	for _, l := range r.lines {
		if o := r.client.opening(l); o != nil {
			all = append(all, o)
		}
	}
	if len(all) == 0 {
		return q
	}
	r.turn++
	return all[r.turn%len(all)]
}

// well reports whether a replica that is better than the session's own answers a query, on a stream of its own that
// stands for a while afterwards (LOC-6, SUR-2). If so its connection is held until release is called.
func (r *remote) well(x, own *replica, q *query) (release func(), is bool) {
	release, err := r.up.transport.reach(r.ctx, x)
	if err == nil || r.ctx.Err() == nil {
		r.up.note(x, err)
	}
	if err != nil {
		return func() {}, false
	}
	if r.up.cfg.Keepalive.Response == 0 || q == nil {
		return release, true
	}
	find, is := x.answers.check(max(r.failback.interval, checkLasts))
	if find {
		defer func() { x.answers.checked(is) }() // also if it panics
		begun := time.Now()
		err := r.try(r.ctx, x, q, stableAfter)
		if is = err == nil; errors.Is(err, errSilent) && q.sure && !x.answers.last().After(begun) {
			r.betterUnanswered(x, own, q, begun)
		}
	}
	if !is {
		release()
		return func() {}, false
	}
	return release, true
}

// betterUnanswered takes a query that a better replica left unanswered. If the session's own answers it, the better one is
// silent. If not, its resources may be gone without a word: then it counts against none, and the next query asks for
// other resources.
func (r *remote) betterUnanswered(x, own *replica, q *query, since time.Time) {
	if !own.answers.begin(r, time.Now(), false) {
		return
	}
	defer own.answers.done()
	switch _, err := r.send(r.ctx, own, q, 0); {
	case err == nil:
		r.silent(x, since)
	case errors.Is(err, errSilent):
		r.session.post(r.ctx, func() { r.client.sent().unanswered(q) })
	}
}

// try asks a replica that does not serve the session. It returns nil if that answers, and errSilent if it says nothing.
func (r *remote) try(ctx context.Context, x *replica, q *query, stay time.Duration) error {
	_, err := r.send(ctx, x, q, stay)
	switch {
	case err == nil, errors.Is(err, errSilent):
	case ctx.Err() != nil:
		err = ctx.Err()
	default:
		r.up.replicas.found(x, false)
		r.up.failed(causeAt(x.name, err, false))
	}
	return err
}

const (
	// checkLasts is how long it counts for other scopes, at least, that a replica was well.
	checkLasts = 30 * time.Second
	// betterWait is how long a replica that answers waits for a better one.
	betterWait = time.Second
	// maxTried is how many replicas are asked at once.
	maxTried = 8
)

// first gives the first of several replicas, in their order, that answers, except x; nil if none does. All are asked at
// once, and none that answers waits for long for a better one.
func (r *remote) first(all []*replica, x *replica, q *query) *replica {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	all = slices.DeleteFunc(slices.Clone(all), func(o *replica) bool { return o == x })
	all = all[:min(len(all), maxTried)]
	answered := make(chan int, maxTried)
	for i, o := range all {
		r.failback.wg.Go(func() {
			answers := false
			r.session.safety.try(logs.PartUpstream, func() { answers = r.try(ctx, o, q, 0) == nil })
			if !answers {
				i = len(all)
			}
			answered <- i
		})
	}
	best := len(all)
	var enough <-chan time.Time
	for range all {
		select {
		case i := <-answered:
			best = min(best, i)
			if best == 0 {
				return all[0]
			}
			if best < len(all) && enough == nil {
				enough = time.After(betterWait)
			}
		case <-enough:
			return all[best]
		}
	}
	if best == len(all) {
		return nil
	}
	return all[best]
}
