package upstream

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// stableAfter is how long a stream must stand to count as good though it was
	// never answered: a server has nothing to say to a stream that resumed.
	stableAfter = 10 * time.Second
	// drainTime is how long a server may take to read the last unsubscriptions
	// and end a stream that is no longer wanted.
	drainTime = time.Second
	// renewPause is how long a stream that began anew because the Store wanted it is
	// left alone. A client decides what makes it begin anew, and everybody shares it.
	renewPause = time.Second
)

// line is one of a session's streams through all its incarnations, from when it is
// wanted until it is idle and not wanted any more. All of it belongs to the session's
// owner.
//
// It is idle (stream nil, nothing else set), waiting for its next attempt (at), for the
// entrance (queued) or for somebody to come (asleep), connecting (stream, not open) or
// open; and open lines that are no longer wanted are draining until the server has ended
// the stream.
type line struct {
	id      wire.StreamID
	method  string
	stream  *stream
	dialect dialect              // of the stream that is open
	open    bool                 // Store.Restart was called, so Lost is due
	greeted bool                 // the node was sent (STR-2)
	asked   map[string]time.Time // types, since when
	// subscribed is when names of a type that is asked for were last added (UPS-3).
	subscribed map[string]time.Time
	// established: answered, or stable. Draining: see above.
	established, draining bool
	// refused: the server ended the stream of this one type, and may do so for the
	// type's sake; until it answers.
	refused bool
	// rejected is how many times in a row the server ended the stream because it takes no
	// second one, as it seems.
	rejected int
	// at is when to try again (waiting), to count the stream as stable (open, and
	// something was asked for), or to stop waiting for the server (draining).
	at time.Time
	// standsAt is when the stream shows, by standing, that the server is there.
	standsAt time.Time
	// queued: the line waits at the entrance. asleep: nobody waits for what is wanted.
	queued, asleep bool
	ticket         *ticket
	renewed        time.Time // when it last began anew because the Store wanted it
	renew          time.Time // when it may do so again; zero: it need not
	backoff        backoff.Backoff
	failed         []bool // endpoints that failed since the last good stream or back-off
}

func (l *line) idle() bool {
	return l.stream == nil && l.at.IsZero() && !l.queued && !l.asleep
}

func (l *line) standing() standing {
	return standing{aside: l.idle() || l.draining || l.asleep, refused: l.refused, good: l.established}
}

// asks says whether a type was asked for on the stream that is open.
func (l *line) asks(typeURL string) bool {
	_, asked := l.asked[typeURL]
	return l.open && asked
}

// connect opens a stream at the session's endpoint, in the background.
func (s *Session) connect(l *line) {
	c, err := s.up.acquire(s.failback.endpoint)
	if err != nil {
		// New has tried the target, so this is about something that may pass.
		s.end(l, ReasonUnreachable)
		err := &ConnectionError{Endpoint: s.up.cfg.Endpoints[s.failback.endpoint], Reason: ReasonUnreachable, Err: err}
		s.retry(l, err, s.failback.endpoint, false, false)
		return
	}
	l.at = time.Time{}
	s.allowSecond(l)
	l.stream = newStream(s.ctx, c, s.up.cfg.APIType, l.method, s.events, s.wrote)
	st := l.stream
	// A stream that was ended may have posted before; what it says then is void.
	current := func(f func()) {
		if l.stream == st {
			f()
		}
	}
	st.start(s.up.cfg.ConnectTimeout, handler{
		opened:   func() { current(func() { s.opened(l) }) },
		response: func(r received, at time.Time) { current(func() { s.respond(l, r, at) }) },
		lost:     func(err error) { current(func() { s.lost(l, err) }) },
	})
}

// opened subscribes to everything wanted, with the versions held (RES-12).
func (s *Session) opened(l *line) {
	c := l.stream.conn
	s.up.found(c.endpoint, true)
	l.open = true
	if s.up.entrance.outages.down() {
		l.standsAt = time.Now().Add(probeStands)
	}
	l.asked, l.subscribed = make(map[string]time.Time), make(map[string]time.Time)
	l.dialect = s.newDialect(l)
	endpoint := s.up.cfg.Endpoints[c.endpoint]
	s.note(func(st *Status) { st.Streams++; st.Opened++ })
	s.obs.StreamOpened(l.id.String(), endpoint)
	s.log.Debug("stream opened", "stream", l.id, "endpoint", endpoint)

	s.taken(l, s.store.Restart(l.id, versionsLimit(s.up.cfg.MaxRequestSize, s.nodeSize)))
	if !s.store.StreamWanted(l.id) {
		s.drain(l) // what was only waiting to be unsubscribed went with Restart
	}
}

// demand writes what changed, once nothing else waits to be written: what waits
// for a slow server is merged in the Store, not queued here. When the last
// unsubscription is said the stream is no longer wanted.
func (s *Session) demand(l *line) {
	st := l.stream
	if !st.idle(func() {
		if l.stream == st && l.open && !l.draining {
			s.demand(l)
		}
	}) {
		return
	}
	if s.takeDemand(l) && !s.store.StreamWanted(l.id) {
		s.drain(l)
	}
}

// takeDemand writes what changed and says whether it did: the Store may want the
// stream to begin anew, which it does at once, or after a pause.
func (s *Session) takeDemand(l *line) bool {
	subs, ok := s.store.TakeDemand(l.id)
	if !ok {
		now := time.Now()
		if again := l.renewed.Add(renewPause); now.Before(again) {
			l.renew = again
			return false
		}
		l.renewed = now
		s.end(l, ReasonResubscribe)
		if s.store.StreamWanted(l.id) {
			s.connect(l)
		}
		return false
	}
	s.taken(l, subs)
	return true
}

// taken writes what was taken from the Store.
func (s *Session) taken(l *line, subs []wire.Subscription) {
	l.dialect.begin()
	for _, sub := range subs {
		s.subscribe(l, sub)
	}
	s.say(l, l.dialect.flush())
	s.cancelTrial(l)
	s.settle()
}

// subscribe writes one subscription, unless its type is withheld.
func (s *Session) subscribe(l *line, sub wire.Subscription) {
	if s.quarantine.withhold(l, sub) {
		s.store.Withhold(l.id, sub.TypeURL, true)
		return
	}
	s.ask(l, sub)
}

// ask writes one subscription. The first is what the stream begins to stand with.
//
// In the state of the world it names the last response, which acknowledges that: an
// answer that is held cannot be held any longer.
func (s *Session) ask(l *line, sub wire.Subscription) {
	if s.up.cfg.APIType.State() {
		s.acknowledgeType(l, sub.TypeURL)
	}
	reserved := 0
	if !l.greeted {
		reserved = s.nodeSize
	}
	s.say(l, l.dialect.subscribe(sub, reserved, s.up.cfg.MaxRequestSize))
	if len(sub.Subscribe) > 0 {
		l.subscribed[sub.TypeURL] = time.Now()
	}
}

// say writes requests that change subscriptions.
func (s *Session) say(l *line, reqs []request) {
	for _, req := range reqs {
		if _, asked := l.asked[req.GetTypeUrl()]; !asked {
			now := time.Now()
			if len(l.asked) == 0 && !l.established {
				l.at = now.Add(stableAfter)
			}
			l.asked[req.GetTypeUrl()] = now
		}
		s.write(l, req, KindSubscribe)
	}
}

// write hands a request to the stream's sender. The first of each stream
// carries the node (STR-2).
func (s *Session) write(l *line, req request, kind RequestKind) {
	if !l.greeted {
		withNode(req, s.node)
		l.greeted = true
	}
	l.stream.enqueue(outgoing{req: req, kind: kind})
}

// drain has the server end the stream, once it has read what was written.
func (s *Session) drain(l *line) {
	l.stream.enqueue(outgoing{})
	l.draining = true
	l.at = time.Now().Add(drainTime)
}

// lineDue does what the line's time has come for.
func (s *Session) lineDue(l *line) {
	switch {
	case l.draining:
		s.end(l, ReasonUnwanted)
	case l.open:
		s.answered(l)
	case s.store.StreamWanted(l.id):
		s.attempt(l)
	default:
		s.up.entrance.leave(l.ticket)
	}
}

// answered counts the stream as good.
func (s *Session) answered(l *line) {
	if l.established {
		return
	}
	l.established, l.rejected = true, 0
	s.up.entrance.outages.count(1)
	s.up.entrance.answer(l.stream.conn.endpoint, time.Now())
	if !l.draining {
		l.at = time.Time{}
	}
	s.welcomed(l)
	s.log.Info("connected", "stream", l.id, "endpoint", s.up.cfg.Endpoints[l.stream.conn.endpoint])
	s.failback.arrived(l.stream.conn.endpoint)
}

// end closes the line's stream, if there is one, and leaves the line idle. A
// stream that was good ends the count of attempts, whoever ended it.
func (s *Session) end(l *line, reason Reason) {
	st, open := l.stream, l.open
	if l.established {
		s.up.entrance.outages.count(-1)
		if !reason.repeats() {
			l.backoff.Reset()
			clear(l.failed)
		}
	}
	l.stream, l.dialect, l.open, l.greeted, l.established, l.draining = nil, nil, false, false, false, false
	l.at, l.renew, l.standsAt, l.queued, l.asleep = time.Time{}, time.Time{}, time.Time{}, false, false
	s.held.drop(l)
	if reason.final() {
		s.up.entrance.leave(l.ticket)
	}
	if st == nil {
		return
	}
	st.stop()
	s.up.release(st.conn)
	if open {
		s.withdraw(l)
		s.store.Lost(l.id)
		s.note(func(st *Status) { st.Streams-- })
		s.obs.StreamClosed(l.id.String(), reason)
	}
}

// lost ends a stream that broke, or could not be opened, and sees to the next.
func (s *Session) lost(l *line, cause error) {
	endpoint := l.stream.conn.endpoint
	opened, draining := l.open, l.draining
	s.offended(l.stream.conn, cause)
	cause = conceal(cause, s.metadata)
	err := &ConnectionError{Endpoint: s.up.cfg.Endpoints[endpoint], Reason: reasonOf(cause, opened), Err: cause}
	good := l.established && !err.Reason.repeats()
	if draining {
		s.end(l, ReasonUnwanted)
		return
	}
	s.blame(l, cause)
	good = good || s.refuse(l, cause)
	if s.rejectsSecond(l, cause) {
		s.mergeStreams(l, err)
		return
	}
	s.end(l, err.Reason)
	if !opened {
		s.up.found(endpoint, false)
		s.obs.ConnectFailed(err.Endpoint, err.Reason)
	}
	s.retry(l, err, endpoint, opened, good)
}

// retry decides where and when the next attempt goes (OPS-2, LOC-6). A stream
// that was good is tried again where it was. After one that was not, the other
// endpoints have their turn: at once if this one could not be reached at all,
// but a server that took the stream and ended it is a reason to wait. When all
// have failed it begins with the best again, after a wait.
func (s *Session) retry(l *line, err *ConnectionError, endpoint int, opened, good bool) {
	first := l.backoff.Attempts == 0
	atOnce := !good && s.failback.moveOn(endpoint, l.failed, !opened)
	var delay time.Duration
	if !atOnce {
		if delay = s.wait(l, err); delay > 0 {
			s.obs.BackedOff(delay)
		}
	}
	s.noteFailed(s.ctx, l.id, err, delay, first || good && !l.refused, opened)
	if atOnce {
		s.connect(l)
	}
}

// wait has a line wait for its next attempt, and says how long at least; zero if that is
// until somebody comes. While other streams are good it is the line's own business when
// that is; else the entrance decides (UPS-2).
func (s *Session) wait(l *line, err *ConnectionError) time.Duration {
	awaited := s.store.Awaited()
	delay, queued := s.up.entrance.lost(l.ticket, err, awaited && !l.refused)
	switch {
	case !awaited:
		l.asleep = true
		l.backoff.Attempts++
		return 0
	case queued:
		l.queued = true
		l.backoff.Attempts++
		return delay
	}
	if !l.refused {
		l.backoff.Max = backoffBound(s.up.cfg.BackoffMax, err.Reason)
	}
	delay = l.backoff.Next()
	l.at = time.Now().Add(delay)
	return delay
}

// attempt opens a stream as soon as somebody waits for it and the entrance lets it in.
func (s *Session) attempt(l *line) {
	switch {
	case !s.store.Awaited():
		l.asleep = true
		s.up.entrance.leave(l.ticket)
	case s.up.entrance.enter(l.ticket):
		s.connect(l)
	default:
		l.queued = true
	}
}

// admit opens the streams of the lines that the entrance has let in. They follow the probe
// to its endpoint, unless a stream ties the session to one.
func (s *Session) admit() {
	for _, l := range s.lines {
		switch {
		case !s.up.entrance.take(l.ticket):
		case !l.queued:
			s.up.entrance.leave(l.ticket)
		case !s.store.StreamWanted(l.id):
			s.end(l, ReasonUnwanted)
		case !s.store.Awaited():
			l.queued, l.asleep = false, true
			s.up.entrance.leave(l.ticket)
		default:
			l.queued = false
			if endpoint, back := s.up.entrance.serving(l.ticket); back && !s.streams() {
				s.failback.moveTo(endpoint)
			}
			s.connect(l)
		}
	}
}

// streams reports whether there is a stream, or an attempt to open one.
func (s *Session) streams() bool {
	return slices.ContainsFunc(s.lines, func(l *line) bool { return l.stream != nil })
}

// rouse looks after a line that is asleep, of which the demand has changed: it is tried
// again if somebody has come. Otherwise something may only be there to be let go of.
func (s *Session) rouse(l *line) {
	if s.store.Awaited() {
		l.asleep = false
		s.begin(l)
		return
	}
	subs, _ := s.store.TakeDemand(l.id)
	if slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return len(sub.Subscribe) > 0 }) {
		s.store.Lost(l.id)
	}
}
