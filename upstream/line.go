package upstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// stableAfter is how long a stream must stand to count as good though it was
	// never answered: a server has nothing to say to a stream that resumed. One that was answered
	// and does not stand for so long does not end the growth of the waits: the server may answer
	// and end each stream.
	stableAfter = 10 * time.Second
	// renewPause is how long a line that began anew because the Store wanted it is
	// left alone. A client can cause that it begins anew, and all clients share it (LIM-2).
	renewPause = time.Minute
	// alonePause is the same where no client shares the line with another one. With pollers nobody
	// loses anything: the type is only polled for once more.
	alonePause = time.Second
	// renewLook is how often the Store is asked meanwhile whether the line must still begin anew: what
	// could be mixed up may have come by now.
	renewLook = 5 * time.Second
)

// line is one of the Store's streams over all its links, from when it is wanted until it
// is idle and not wanted. It belongs to the session's owner.
//
// A line is idle (no link, nothing else set), waits for its next attempt (at) or for
// something else (waits), or has a link. The link is open once the Store was told of it.
// An open line that is not wanted any more drains until the server has ended the stream.
type line struct {
	remote *remote
	id     wire.StreamID
	waits  waiting
	ticket *ticket // at the entrance
	// at is when to try again (no link), to count the stream as stable (open, and
	// something was asked for), or to stop waiting for the server (draining).
	at      time.Time
	backoff retry.Backoff
	failed  []*replica // those that failed since the last good link or back-off

	link    link
	replica *replica // of the link
	open    bool     // Store.Restart was called, so Lost is due
	counted bool     // Status counts the link
	owed    owed
	// established: the server answered, or the link is stable.
	established, draining bool
	// refused: the server may not serve the type; until it answers.
	refused bool
	// rejected is how many times in a row the server ended the stream because it takes no
	// second stream, as it seems (SUB-14).
	rejected int
	warned   warned

	renewal renewal
}

// renewal is the beginning anew of a line because the Store wants it.
type renewal struct {
	last time.Time
	due  time.Time // of the next; zero: it need not be
}

// warned has the warnings that a line's pollers have logged and do not log again.
type warned struct {
	large     bool
	discarded string // the first field that this build does not know
}

// waiting is the event that a line without a link waits for, besides a time.
type waiting int

const (
	waitsNot      waiting = iota
	waitsEntrance         // for the entrance to let it in (UPS-2)
	waitsNames            // for the names of the endpoints to be looked up
	waitsClient           // for a client that waits for a resource
)

// link is a line's stream to the server, or its poller. The differences between streams and
// polls are here and in client.
type link interface {
	// demand asks the server for changed demand.
	demand()
	// leave ends the link because nothing is wanted on it any more.
	leave()
	// subscribed is when names of a type were last added (UPS-3).
	subscribed(typeURL string) time.Time
	// close ends the link and waits for its goroutines. The line has no link any more.
	close()
}

func (l *line) idle() bool { return l.link == nil && l.at.IsZero() && l.waits == waitsNot }

// resting reports whether nothing is under way: the line is idle, or no client waits.
func (l *line) resting() bool { return l.idle() || l.waits == waitsClient }

func (l *line) standing() standing {
	// A link that asks for nothing is no sign that the server is away: its types are asked for beside (LIM-2).
	bare := l.open && l.remote.client.opening(l) == nil
	return standing{aside: l.resting() || l.draining, refused: l.refused || bare && !l.established, good: l.established}
}

// serving reports whether the Store was told of the link, and wants it.
func (l *line) serving() bool { return l.open && !l.draining }

// urgent reports whether something of the line is to be asked for at once, or the line is
// to begin (UPS-3). Demand of a link that is not open yet goes with its first requests.
func (l *line) urgent(now time.Time) bool {
	r := l.remote
	switch {
	case l.idle(), l.draining:
		return true
	case l.waits == waitsClient:
		return r.store.Awaited()
	case !l.open:
		return false
	}
	return slices.ContainsFunc(r.store.Unasked(l.id), func(typeURL string) bool {
		return now.Sub(l.link.subscribed(typeURL)) >= r.up.cfg.Batch
	})
}

// reconcile brings the line in line with whether it is wanted.
func (l *line) reconcile(wanted bool) {
	switch {
	case wanted && l.draining:
		l.end(ReasonUnwanted)
		l.connect()
	case wanted && l.idle():
		l.begin()
	case wanted && l.waits == waitsClient:
		l.rouse()
	case wanted && l.open:
		l.link.demand()
	case !wanted && l.serving():
		l.link.leave()
	case !wanted && !l.open:
		l.end(ReasonUnwanted)
	}
}

// begin starts a line that was idle. If all lines are, nothing ties the session to the
// endpoint that it used last.
func (l *line) begin() {
	if l.remote.resting() {
		l.remote.failback.begin()
	}
	l.failed = nil
	l.attempt()
}

// attempt connects as soon as a client waits and the entrance lets the line in.
func (l *line) attempt() {
	r := l.remote
	switch {
	case !r.store.Awaited():
		l.sleep()
	case !r.up.replicas.known():
		l.waits = waitsNames
	case r.up.entrance.enter(l.ticket):
		l.connect()
	default:
		l.waits = waitsEntrance
	}
}

// sleep has the line wait for a client.
func (l *line) sleep() {
	l.waits = waitsClient
	l.remote.up.entrance.leave(l.ticket)
}

// begun has a line begin that waited for the names of the endpoints.
func (l *line) begun() {
	if l.waits == waitsNames && l.remote.up.replicas.known() {
		l.waits = waitsNot
		l.begin()
	}
}

// admit connects if the entrance has let the line in. It follows the probe, unless another
// link ties the session to a replica.
func (l *line) admit() {
	r := l.remote
	switch {
	case !r.up.entrance.take(l.ticket):
	case l.waits != waitsEntrance:
		r.up.entrance.leave(l.ticket)
	case !r.store.StreamWanted(l.id):
		l.end(ReasonUnwanted)
	case !r.store.Awaited():
		l.sleep()
	default:
		l.waits = waitsNot
		if x, back := r.up.entrance.serving(l.ticket); back && !r.linked() {
			r.failback.follow(x)
		}
		l.connect()
	}
}

// rouse looks after a line that waits for a client, and whose demand has changed. If a
// client has come the line begins. Otherwise names may only be there to be unsubscribed.
func (l *line) rouse() {
	store := l.remote.store
	if store.Awaited() {
		l.waits = waitsNot
		l.begin()
		return
	}
	subs, _ := store.TakeDemand(l.id)
	if slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return len(sub.Subscribe) > 0 }) {
		store.Lost(l.id)
	}
}

// connect begins a link at the session's replica, in the background.
func (l *line) connect() {
	r := l.remote
	r.failback.renew()
	switch {
	case r.linked():
	case r.failback.left():
		r.failback.begin()
	case r.up.entrance.outages.down():
		r.failback.spare()
	}
	l.at, l.replica = time.Time{}, r.failback.replica
	l.owed.began = time.Now()
	k, err := r.client.connect(l)
	if err != nil {
		// The upstream has tried the endpoint, so this is about something that may pass.
		l.fail(l.failure(reasonOf(err, false), err), true, false)
		return
	}
	l.link = k
}

// opened notes that the Store is told of the link.
func (l *line) opened() { l.open, l.owed.opened = true, time.Now() }

// count has Status count the link.
func (l *line) count() {
	l.counted = true
	r := l.remote
	r.report.note(func(st *Status) { st.Streams++; st.Opened++ })
	r.report.obs.StreamOpened(l.id.String(), l.replica.name)
}

// refuse notes that the server may not serve the line's type, and why, until welcome.
func (l *line) refuse(reason error) {
	l.refused = true
	l.remote.report.noteRefused(l.id, detail(reason))
}

// welcome takes back refuse.
func (l *line) welcome() {
	if l.refused {
		l.refused = false
		l.remote.report.noteRefused(l.id, "")
	}
}

// answered notes an answer of the server.
func (l *line) answered(at time.Time) {
	l.paid(at)
	l.remote.up.heard(l.replica, at)
	l.establish(at)
}

// establish counts the server as there, and the link as good.
func (l *line) establish(at time.Time) {
	r := l.remote
	l.welcome()
	first := !l.established
	if first {
		l.established, l.rejected = true, 0
		r.up.entrance.outages.count(1)
		r.up.causes.answered(l.replica.name)
		if !l.draining {
			l.at = time.Time{}
		}
	}
	r.up.entrance.answer(l.replica, at)
	if first {
		r.report.log.Info("connected", "stream", l.id, "endpoint", l.replica.name)
		r.failback.arrived(l.replica)
	}
}

// again has the line begin anew because the Store wants it, at once or after a pause. It reports whether it did
// at once.
func (l *line) again(pause time.Duration) (now bool) {
	at := time.Now()
	if again := l.renewal.last.Add(pause); at.Before(again) {
		l.renewal.due = notify.Earlier(again, at.Add(renewLook))
		return false
	}
	l.renewal.last = at
	l.end(ReasonResubscribe)
	if l.remote.store.StreamWanted(l.id) {
		l.connect()
	}
	return true
}

// elapse does the work of the line that is due.
func (l *line) elapse(now time.Time) {
	r := l.remote
	if due(&l.at, now) {
		switch {
		case l.draining:
			l.end(ReasonUnwanted)
		case l.open && l.owes():
			l.at = now.Add(stableAfter)
		case l.open:
			l.establish(now)
		case r.store.StreamWanted(l.id):
			l.attempt()
		default:
			r.up.entrance.leave(l.ticket)
		}
	}
	l.elapseOwed(now)
	if due(&l.renewal.due, now) && l.serving() {
		l.link.demand()
	}
}
