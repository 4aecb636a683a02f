package upstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/moment"
)

// duty is whether a server must answer a request (SUR-2).
type duty int

const (
	silenceIsLegal duty = iota // versions were presented: the server may have nothing to say
	perhaps                    // nobody knows whether there is what is asked for
	surely                     // the control plane delivered it before
)

// owed is what the server of a line's link has not answered.
type owed struct {
	began  time.Time // when the link was begun
	opened time.Time // when it was opened; zero: it is not
	since  time.Time // when the oldest request was written that no answer followed; zero: none
	// leave is when the line leaves the server because it must answer; zero: it need not.
	leave time.Time
	// search is when to look for another server, since this one has never answered.
	search   time.Time
	standsAt time.Time // when the link shows, by standing, that the server is there
	quiet    bool      // versions were presented
}

// next is when elapseOwed has something to do, zero if never.
func (o *owed) next() time.Time {
	return moment.Earlier(moment.Earlier(o.leave, o.search), o.standsAt)
}

// asks notes that a request was written on the link.
func (l *line) asks(at time.Time, d duty) {
	r, o := l.remote, &l.owed
	contacts, timeout := &r.up.entrance.outages.contacts, r.up.cfg.Keepalive.Response
	o.quiet = o.quiet || d == silenceIsLegal
	if d != silenceIsLegal && o.since.IsZero() {
		o.since = at
		if !contacts.ever() {
			contacts.owe(l, at)
		}
	}
	if timeout == 0 {
		return
	}
	if d == surely && o.leave.IsZero() {
		contacts.owe(l, o.since)
		o.leave = at.Add(l.replica.exam.patience())
	}
	if d != silenceIsLegal && o.search.IsZero() {
		o.search = at.Add(timeout)
	}
	l.replica.exam.doubt(at, r.up.entrance.outages.down() && !r.up.entrance.flapping())
}

// owes reports whether the server has to answer before it counts as good.
func (l *line) owes() bool {
	if l.remote.up.cfg.Keepalive.Response == 0 {
		return false
	}
	since, _ := l.replica.exam.silence()
	return !l.owed.leave.IsZero() || !since.IsZero()
}

// stood reports whether the link has been open for so long that the server keeps it.
func (o *owed) stood() bool { return !o.opened.IsZero() && time.Since(o.opened) >= stableAfter }

// resumed reports whether all that was asked for on the link may stay unanswered by right.
func (o *owed) resumed() bool { return o.quiet && o.since.IsZero() && o.leave.IsZero() }

// paid notes an answer. To most responses there is no request: then nothing was owed.
func (l *line) paid(at time.Time) {
	if l.owed.since.IsZero() {
		return
	}
	l.remote.report.obs.Answered(at.Sub(l.owed.since))
	l.owed.since, l.owed.leave, l.owed.search = time.Time{}, time.Time{}, time.Time{}
	l.remote.up.entrance.outages.contacts.owe(l, time.Time{})
}

// clear forgets what was owed on a link that is over.
func (l *line) clear() {
	l.owed = owed{}
	l.remote.up.entrance.outages.contacts.owe(l, time.Time{})
}

// elapseOwed does what the time has come for.
func (l *line) elapseOwed(now time.Time) {
	r, o := l.remote, &l.owed
	if due(&o.standsAt, now) {
		if !l.established && r.up.entrance.flapping() {
			o.standsAt = now.Add(probeStands) // another endpoint may be the one that answers, and this one be mute
		} else {
			r.up.entrance.stood(l.replica, now)
		}
	}
	if due(&o.search, now) && !l.draining {
		r.search(l)
	}
	if due(&o.leave, now) && !l.draining {
		// To others it may answer: it may have something against this scope.
		if !l.replica.exam.heard().After(o.since) {
			r.up.silent(l.replica, o.since, r.report.obs)
		}
		l.fail(l.failure(ReasonSilent, errSilent), true, false)
	}
}
