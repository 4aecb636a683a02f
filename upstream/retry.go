package upstream

import "time"

// end closes the line's link, if there is one, and leaves the line idle. A link that was
// good ends the count of attempts, whichever side ended it.
func (l *line) end(reason Reason) {
	r, k, open, counted := l.remote, l.link, l.open, l.counted
	if l.established {
		r.up.entrance.outages.count(-1)
		if !reason.repeats() {
			l.backoff.Reset()
			clear(l.failed)
		}
	}
	l.link, l.waits, l.open, l.counted, l.established, l.draining = nil, waitsNot, false, false, false, false
	l.at, l.renewal.due, l.standsAt = time.Time{}, time.Time{}, time.Time{}
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
	return &ConnectionError{Endpoint: l.remote.up.cfg.Endpoints[l.endpoint], Reason: reason, Err: cause, At: time.Now()}
}

// fail ends a link that broke or could not be made, and decides where and when the next
// attempt goes (OPS-2, LOC-6). With stay it goes where the link was: the link was good, or
// the server only refuses the type. Otherwise the other endpoints have their turn: at once
// if this endpoint could not be reached at all. But a server that took the link and ended
// it is a reason to wait. When all endpoints have failed the best is tried again, after a
// wait.
func (l *line) fail(err *ConnectionError, unreachable, stay bool) {
	r, endpoint, counted := l.remote, l.endpoint, l.counted
	l.end(err.Reason)
	if unreachable {
		r.up.found(endpoint, false)
	}
	if !counted {
		r.report.obs.ConnectFailed(err.Endpoint, err.Reason)
	}
	first := l.backoff.Attempts == 0
	atOnce := !stay && r.failback.moveOn(endpoint, l.failed, unreachable)
	var delay time.Duration
	if !atOnce {
		if delay = l.wait(err); delay > 0 {
			r.report.obs.BackedOff(delay)
		}
	}
	r.report.noteFailed(r.ctx, l.id, err, delay, first || stay && !l.refused, counted)
	if atOnce {
		l.connect()
	}
}

// wait has the line wait for its next attempt, and returns for how long at least; zero if
// it waits for a client. While other links are good, and while the server only refuses the
// type, the line itself decides when that is. Otherwise the entrance does (UPS-2).
func (l *line) wait(err *ConnectionError) time.Duration {
	r := l.remote
	awaited, delay, queued := r.store.Awaited(), time.Duration(0), false
	if l.refused && r.refusals.answer {
		r.up.entrance.leave(l.ticket)
	} else {
		delay, queued = r.up.entrance.lost(l.ticket, err, awaited && !l.refused)
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
	delay = l.backoff.Next()
	l.at = time.Now().Add(delay)
	return delay
}
