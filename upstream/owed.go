package upstream

import (
	"time"
)

// owed has the requests that the server of a line's link has not answered (SUR-2). A request is owed an answer if it
// presents no version, is the first for its type on its stream, and asks for a resource that the control plane
// delivered before. If it asks for another one, a server that knows it may be silent only while it answers other requests.
type owed struct {
	began    time.Time // when the link was begun
	opened   time.Time // when it was opened; zero: it is not
	since    time.Time // when the oldest request was written that no answer followed; zero: none
	due      time.Time // when another server is asked; zero: never
	sure     bool      // an answer is owed
	standsAt time.Time // when the link shows, by standing, that the server is there
}

// stood reports whether the link has been open for so long that the server keeps it.
func (o *owed) stood() bool { return !o.opened.IsZero() && time.Since(o.opened) >= stableAfter }

// asks notes that a request without versions was written on the link. first is set if it is the first for its
// type, and sure if it asks for what was delivered before.
func (l *line) asks(at time.Time, first, sure bool) {
	r, o := l.remote, &l.owed
	contacts := &r.up.entrance.outages.contacts
	if o.since.IsZero() {
		o.since = at
	}
	if timeout := r.up.cfg.Keepalive.Response; timeout > 0 && first {
		o.sure = o.sure || sure
		if o.due.IsZero() {
			o.due = at.Add(timeout)
		}
	}
	contacts.owe(l, o.since, o.sure)
}

// returned has the link show that the server is there. If others were lost it may have begun anew, and use the same
// versions for other contents (ACK-4): so one that presented versions asks for something that was delivered. In
// an outage the answer shows that the server is back. Where nothing can be asked for, a link shows it that stands for so long.
func (l *line) returned(resumed bool, stands time.Duration) {
	r := l.remote
	flaps, down := r.up.entrance.flapping(), r.up.entrance.outages.down()
	asked := r.up.cfg.Keepalive.Response > 0 && !flaps && (down || resumed && l.replica.answers.lostSince()) && r.query(l, time.Now(), false)
	if flaps || down && !asked {
		l.owed.standsAt = time.Now().Add(stands)
	}
}

// owes reports whether the server has to answer before it counts as good.
func (l *line) owes() bool {
	silent, _ := l.replica.answers.silence()
	return l.owed.sure || !silent.IsZero()
}

// paid notes an answer. To most responses there is no request: then nothing was owed.
func (l *line) paid(at time.Time) {
	o := &l.owed
	if o.since.IsZero() {
		return
	}
	l.remote.report.obs.Answered(at.Sub(o.since))
	l.remote.up.entrance.outages.contacts.paid(at, at.Sub(o.since))
	o.since, o.due, o.sure = time.Time{}, time.Time{}, false
	l.remote.up.entrance.outages.contacts.owe(l, time.Time{}, false)
}

// clear forgets the requests of a link that is over.
func (l *line) clear() {
	l.owed = owed{}
	contacts := &l.remote.up.entrance.outages.contacts
	contacts.owe(l, time.Time{}, false)
	contacts.owe(l.replica, time.Time{}, false)
}

// elapseOwed does the work that is due.
func (l *line) elapseOwed(now time.Time) {
	r, o := l.remote, &l.owed
	if due(&o.standsAt, now) {
		if o.sure && r.up.entrance.flapping() {
			o.standsAt = now.Add(probeStands) // it may be mute, and another endpoint the one that answers
		} else {
			r.up.entrance.stood(l.replica, now)
		}
	}
	if due(&o.due, now) && !l.draining {
		r.fallback(l, now)
	}
	if at := r.queryAt(l); !at.IsZero() && !now.Before(at) {
		r.query(l, now, true)
	}
}
