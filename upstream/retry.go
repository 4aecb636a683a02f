package upstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// end closes the line's link, if there is one, and leaves the line idle. A link that was
// good and stood, or that the relay ended, ends the count of attempts.
func (l *line) end(reason Reason) {
	r, k, open, counted := l.remote, l.link, l.open, l.counted
	if open && !reason.own() {
		l.replica.answers.lose(r, false)
	}
	if l.established {
		r.report.heard = notify.Later(r.report.heard, l.replica.answers.last())
		r.up.entrance.outages.count(-1)
		if reason.own() || !reason.repeats() && l.owed.stood() {
			l.backoff.Reset()
			l.failed = nil
		}
	}
	l.link, l.waits, l.open, l.counted, l.established, l.draining = nil, waitsNot, false, false, false, false
	l.at, l.renewal.due = time.Time{}, time.Time{}
	l.clear()
	if reason.final() {
		r.up.entrance.leave(l.ticket)
	}
	if k == nil {
		return
	}
	k.close()
	if open {
		r.store.Lost(l.id)
	}
	if counted {
		r.report.note(func(st *Status) { st.Streams-- })
		r.report.obs.StreamClosed(l.id.String(), reason)
	}
}

// failure is why the line's link broke or could not be made.
func (l *line) failure(reason Reason, cause error) *ConnectionError {
	return &ConnectionError{Endpoint: l.replica.name, Reason: reason, Err: cause, At: time.Now()}
}

// fail ends a link that broke or could not be made, and decides where and when the next
// attempt goes (OPS-2, LOC-6). With stay it goes where the link was: the link was good, or
// the server only refuses the type. Otherwise the other endpoints have their turn: at once
// if this endpoint could not be reached at all. But a server that took the link and ended
// it is a reason to wait. When all endpoints have failed the best is tried again, after a
// wait.
func (l *line) fail(err *ConnectionError, unreachable, stay bool) {
	r, x, counted, early := l.remote, l.replica, l.counted, l.established && !l.owed.stood()
	l.end(err.Reason)
	r.up.replicas.lookAgain(x)
	if unreachable && err.Reason != ReasonSilent {
		r.up.replicas.found(x, false)
	}
	if err.Reason == ReasonTimeout {
		r.findReachable(x)
	}
	if !counted {
		r.report.obs.ConnectFailed(err.Endpoint, err.Reason)
	}
	if !l.refused {
		r.up.failed(err.Cause())
	}
	first := l.backoff.Attempts == 0
	atOnce := !stay && r.failback.moveOn(x, &l.failed, unreachable)
	var delay time.Duration
	if !atOnce {
		if delay = l.wait(err, early); delay > 0 {
			r.report.obs.BackedOff(delay)
		}
	}
	r.report.noteFailed(r.ctx, l.id, err, delay, first || stay && !l.refused, counted)
	if !atOnce {
		return
	}
	// All scopes leave a server that fell silent at the same moment.
	if err.Reason == ReasonSilent {
		if delay = r.up.entrance.follow(); delay > 0 {
			l.at = time.Now().Add(delay)
			return
		}
	}
	l.connect()
}

// wait has the line wait for its next attempt, and returns for how long at least; zero if
// it waits for a client. While other links are good, and while the server only refuses the
// type, the line itself decides when that is. Otherwise the entrance does (UPS-2). early is as for entrance.lost.
func (l *line) wait(err *ConnectionError, early bool) time.Duration {
	r := l.remote
	awaited, delay, queued := r.store.Awaited(), time.Duration(0), false
	if l.refused && r.refusals.answer {
		r.up.entrance.leave(l.ticket)
	} else {
		delay, queued = r.up.entrance.lost(l.ticket, err, early, awaited && !l.refused)
	}
	switch {
	case !awaited:
		l.waits = waitsClient
		l.backoff.Attempts++
		return 0
	case queued:
		l.waits = waitsEntrance
		l.backoff.Attempts++
		return delay
	}
	l.backoff.Max = backoffBound(r.up.cfg.Backoff.Max, err.Reason)
	if l.refused {
		l.backoff.Max = max(r.up.cfg.Backoff.Max, r.refusals.backoff)
	}
	first := l.backoff.Attempts == 0
	if delay = nextDelay(&l.backoff, early); first {
		delay = max(delay, r.up.entrance.follow())
	}
	l.at = time.Now().Add(delay)
	return delay
}
