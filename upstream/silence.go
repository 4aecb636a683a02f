package upstream

import (
	"context"
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/contain"
)

// leaveSilent ends the links to replicas that have fallen silent.
func (r *remote) leaveSilent() {
	for _, l := range r.lines {
		if l.link == nil || l.draining {
			continue
		}
		if _, last := l.replica.exam.silence(); last.After(l.owed.began) {
			l.fail(l.failure(ReasonSilent, errSilent), true, false)
		}
	}
}

// sitExam asks the replica of a line a question, in the background, if it is the session's
// turn to find out whether it still answers.
func (r *remote) sitExam(l *line) {
	if l.link == nil {
		return
	}
	x := l.replica
	deadline, compare, turn := x.exam.take(r.sitter)
	if !turn {
		return
	}
	var q *question
	if compare {
		q = r.client.questions().question(toCompare)
	}
	compared := q != nil
	if q == nil {
		q = r.client.questions().question(toHear)
	}
	if q == nil {
		x.exam.decline(r.sitter)
		return
	}
	begun, asker := time.Now(), r.client.asker()
	contacts := &r.up.entrance.outages.contacts
	contacts.owe(x, begun)
	r.failback.wg.Go(func() {
		defer contacts.owe(x, time.Time{}) // also if the session ends meanwhile
		rep, err := r.session.safety.ask(r.ctx, asker, x, q, terms{deadline: deadline, heard: func(at time.Time) {
			r.report.obs.Answered(at.Sub(begun))
			r.up.heard(x, at)
		}})
		r.session.post(r.ctx, func() { r.examined(x, q, compared, begun, rep, err) })
	})
}

// examined judges what came of a question.
func (r *remote) examined(x *replica, q *question, compared bool, begun time.Time, rep reply, err error) {
	r.up.entrance.outages.contacts.owe(x, time.Time{})
	if x.exam.end(r.sitter, errors.Is(err, errSilent), compared && err == nil, rep.bytes) {
		r.up.silent(x, begun, r.report.obs)
	}
	switch {
	case err == nil:
		r.quietlyWell(x)
	case errors.Is(err, errSilent):
		r.client.questions().unanswered(q)
	}
	if name, found := q.contradicts(rep); found && !r.up.reuses.Swap(true) {
		r.report.obs.VersionsReused()
		r.report.log.Warn("control plane uses a version again for another content: asking for everything without versions from now on",
			"endpoint", x.name, "name", name)
		r.up.replicas.tell()
		r.session.ring()
	}
}

// quietlyWell counts the links to a replica as good that have resumed and heard nothing yet:
// it answers, so it has nothing to say to them.
func (r *remote) quietlyWell(x *replica) {
	for _, l := range r.lines {
		if l.serving() && l.replica == x && !l.established && l.owed.resumed() {
			l.proved(time.Now())
		}
	}
}

// distrustVersions has everything sent again once it is known that the control plane uses
// versions for several contents (ACK-4). What is held was perhaps never confirmed.
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

// trial is what other replicas are asked: something that was delivered, or else what a link
// began with. It is nil if nothing is asked for.
func (r *remote) trial() *question {
	if q := r.client.questions().question(toFind); q != nil {
		return q
	}
	for _, l := range r.lines {
		if q := r.client.opening(l); q != nil {
			return q
		}
	}
	return nil
}

// well reports whether a replica answers a question, on a stream of its own that stands for
// a while afterwards (LOC-6, SUR-2). If so its connection is held until release is called.
func (r *remote) well(x *replica, q *question) (release func(), is bool) {
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
	probe, is := x.exam.tryProbe(max(r.failback.interval, proofLasts))
	if probe {
		defer func() { x.exam.probed(is) }() // also if it panics
		is = r.askProbe(r.ctx, x, q, stableAfter) == nil
	}
	if !is {
		release()
		return func() {}, false
	}
	return release, true
}

// askProbe asks a replica that does not serve the session.
func (r *remote) askProbe(ctx context.Context, x *replica, q *question, stay time.Duration) error {
	begun := time.Now()
	_, err := r.session.safety.ask(ctx, r.client.asker(), x, q, terms{
		deadline: begun.Add(r.up.cfg.Keepalive.Response), stay: stay,
		heard: func(at time.Time) {
			r.report.obs.Answered(at.Sub(begun))
			r.up.heard(x, at)
		},
	})
	switch {
	case err == nil, ctx.Err() != nil:
	case errors.Is(err, errSilent) && q.perhaps: // by right, it may be
	case errors.Is(err, errSilent):
		r.up.silent(x, begun, r.report.obs)
	default:
		r.up.replicas.found(x, false)
		r.up.failed(causeAt(x.name, err, false))
	}
	return err
}

// search looks, in the background, for a replica that answers what the server of a line does
// not: it has never answered anybody. If none does the line stays where it is, since what is
// asked for may not be there.
func (r *remote) search(l *line) {
	f, x := r.failback, l.replica
	q := r.client.opening(l)
	if q == nil || len(f.order) < 2 || x.exam.heard().After(l.owed.since) {
		return
	}
	if f.probing {
		l.owed.search = time.Now().Add(r.up.cfg.Keepalive.Response)
		return
	}
	f.probing = true
	f.wg.Go(func() {
		found := r.first(f.order, x, q)
		r.session.post(r.ctx, func() { r.searched(l, x, found) })
	})
}

// proofLasts is how long a probe that went well counts for other scopes, at least.
const proofLasts = 30 * time.Second

// maxSearched is how many replicas are asked at once.
const maxSearched = 8

// first gives the first of several replicas that answers, except x; nil if none does.
func (r *remote) first(all []*replica, x *replica, q *question) *replica {
	ctx, cancel := context.WithCancel(r.ctx)
	defer cancel()
	found := make(chan *replica, maxSearched)
	asked := 0
	for _, o := range all {
		if o == x || asked == maxSearched {
			continue
		}
		asked++
		r.failback.wg.Go(func() {
			answers := false
			r.session.safety.try(contain.Upstream, func() { answers = r.askProbe(ctx, o, q, 0) == nil })
			if !answers {
				o = nil
			}
			found <- o
		})
	}
	for range asked {
		if o := <-found; o != nil {
			return o
		}
	}
	return nil
}

// searched moves the session to a replica that answers where x does not.
func (r *remote) searched(l *line, x, found *replica) {
	f := r.failback
	f.probing = false
	switch {
	case l.link == nil || l.replica != x || l.owed.since.IsZero():
	case found == nil:
		l.owed.search = time.Now().Add(f.interval)
	default:
		r.up.silent(x, l.owed.since, r.report.obs)
		f.moveTo(found)
		r.relocate(found)
	}
	f.schedule()
}
