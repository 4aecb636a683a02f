package upstream

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// pollLine is one of a REST session's streams through all its pollers, from when it is
// wanted until it is not. All of it belongs to the session's owner. It is idle (no
// poller, nothing else set), waiting for its next attempt (at), for the entrance (queued)
// or for somebody to come (asleep), or polling.
type pollLine struct {
	id     wire.StreamID
	broken bool // it cannot be polled for, and the line stays idle

	poller   *restjson.Poller
	stop     context.CancelFunc
	wg       sync.WaitGroup // the poller's goroutine
	exchange *exchange      // of the poller
	at       time.Time      // when to try again
	standsAt time.Time      // when a poll that did not fail shows that the server is there
	// queued: the line waits at the entrance. asleep: nobody waits for what is wanted.
	queued, asleep bool
	ticket         *ticket
	atOnce         bool // the attempt is at another endpoint, and asks nobody
	endpoint       int  // of the poller

	names    map[string]struct{}
	list     []string // names in order; what the poller was given last
	accepted []string // what the last accepted response was asked for
	awaiting bool     // the server has not answered for list
	// subscribed is when names were last added (UPS-3).
	subscribed time.Time
	since      time.Time // awaiting: nothing that was not answered was asked for before
	// established: a poll of this poller was answered. refused: the server does not
	// serve the type, until it answers.
	established, refused bool
	large                bool
	discarded            string // what was logged last as not known

	renewed time.Time // when it last began anew because the Store wanted it
	renew   time.Time // when it may do so again; zero: it need not
	again   bool      // names are wanted again that were asked for
	backoff backoff.Backoff
	failed  []bool // endpoints that failed since the last good poll or back-off
}

func (l *pollLine) idle() bool {
	return l.poller == nil && l.at.IsZero() && !l.queued && !l.asleep
}

func (l *pollLine) standing() standing {
	return standing{aside: l.idle() || l.asleep, refused: l.refused, good: l.established}
}

// silence is how long a server may leave unanswered what it was asked before it counts as
// silent, where nobody says when that would be taken for its absence.
const silence = time.Second

// silent reports whether the server has not answered something that was asked of it so
// long ago. While names come and go without end no answer is for all of them, but each is
// for those that were asked for when its poll began.
func (l *pollLine) silent(now time.Time, after time.Duration) bool {
	return l.poller != nil && l.awaiting && now.Sub(l.since) >= after
}

func (s *RESTSession) newLine(id wire.StreamID) *pollLine {
	return &pollLine{
		id: id, failed: make([]bool, len(s.up.cfg.Endpoints)), ticket: &ticket{bell: s.admitted},
		backoff: backoff.Backoff{Base: s.up.cfg.BackoffBase, Max: s.up.cfg.BackoffMax},
	}
}

// start begins to poll for everything wanted at the session's endpoint.
func (s *RESTSession) start(l *pollLine) {
	l.at, l.endpoint, l.again, l.atOnce = time.Time{}, s.failback.endpoint, false, false
	l.names, l.accepted, l.since = make(map[string]struct{}), nil, time.Now()
	subs := s.store.Restart(l.id, 0)
	l.take(subs)
	if !s.store.StreamWanted(l.id) {
		s.store.Lost(l.id) // what was only waiting to be unsubscribed went with Restart
		s.up.entrance.leave(l.ticket)
		return
	}
	s.fit(l)
	l.list = slices.Sorted(maps.Keys(l.names))
	ctx, stop := context.WithCancel(s.ctx)
	l.stop = stop
	l.exchange = newExchange(s.up.transport, s.metadata, func(kind RequestKind) { s.wrote(l.id.TypeURL, kind) })
	cfg := &s.up.cfg
	p, err := restjson.NewPoller(restjson.PollerConfig{
		Client: &http.Client{
			Transport: l.exchange, Timeout: cfg.PollTimeout,
			// A poll carries the node: it goes where the configuration says and nowhere else.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		Base: s.up.bases[s.failback.endpoint], TypeURL: l.id.TypeURL, Node: s.node, Names: l.list,
		FullState:   cfg.FullState[l.id.TypeURL],
		Held:        slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return sub.Held }),
		Interval:    cfg.PollInterval,
		BackoffBase: cfg.BackoffBase, BackoffMax: cfg.BackoffMax,
		Batch:       time.Nanosecond, // the session has gathered already
		MaxResponse: int64(cfg.MaxReceiveSize), Handler: &pollHandler{s, l, ctx},
	})
	if err != nil {
		// New and newLine have checked all of it.
		s.log.Error("cannot poll", "type", l.id.TypeURL, "error", err)
		stop()
		s.store.Lost(l.id)
		s.up.entrance.leave(l.ticket)
		l.broken = true
		return
	}
	l.poller, l.awaiting = p, true
	if s.up.entrance.outages.down() {
		l.standsAt = time.Now().Add(s.up.cfg.ConnectTimeout + probeStands)
	}
	l.wg.Go(func() { _ = p.Run(ctx) }) // its error is ctx's
}

// take notes what is wanted from now on.
func (l *pollLine) take(subs []wire.Subscription) {
	for _, sub := range subs {
		for _, name := range sub.Unsubscribe {
			delete(l.names, name)
		}
		if len(sub.Subscribe) > 0 {
			l.subscribed = time.Now()
		}
		for _, name := range sub.Subscribe {
			l.names[name] = struct{}{}
		}
	}
}

// demand has the poller ask for what is wanted now. The Store may want the line to
// begin anew, which it does at once, or after a pause.
func (s *RESTSession) demand(l *pollLine) {
	now := time.Now()
	subs, ok := s.store.TakeDemand(l.id)
	if !ok {
		s.renewLine(l)
		return
	}
	if !s.store.StreamWanted(l.id) {
		s.end(l, ReasonUnwanted)
		return
	}
	l.take(subs)
	s.fit(l)
	list := slices.Sorted(maps.Keys(l.names))
	if slices.Equal(list, l.list) {
		// A name that is wanted again (TTL-5) is no other name: the poll would be told
		// that nothing changed.
		l.again = l.again || slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return len(sub.Subscribe) > 0 })
		if l.again {
			s.renewLine(l)
		}
		return
	}
	if !l.awaiting {
		l.awaiting, l.since = true, now
	}
	l.list = list
	l.poller.SetNames(list)
}

// renewLine has a line begin anew, at once or after a pause.
func (s *RESTSession) renewLine(l *pollLine) {
	now := time.Now()
	if again := l.renewed.Add(renewPause); now.Before(again) {
		l.renew = again
		return
	}
	l.renewed = now
	s.end(l, ReasonResubscribe)
	s.start(l)
}

// fit has the Store let go of names that nobody watches if a poll would pass the limit
// (RES-17).
func (s *RESTSession) fit(l *pollLine) {
	limit := s.up.cfg.MaxRequestSize
	size := l.size() + s.nodeSize
	if size <= limit {
		return
	}
	if s.store.Shed(l.id, l.id.TypeURL, size-limit+limit/8) {
		if subs, ok := s.store.TakeDemand(l.id); ok {
			l.take(subs)
		}
	}
	if size = l.size() + s.nodeSize; size > limit && !l.large {
		l.large = true
		s.log.Warn("request passes the limit, and all its names are watched: sending it",
			"type", l.id.TypeURL, "names", len(l.names), "bytes", size, "limit", limit)
	}
}

// locatorOverhead is what a name with parameters takes in a poll beyond its words.
const locatorOverhead = len(`{"name":"","dynamicParameters":{}}`) + 64*len(`"":"",`)

// size is what the names take in a poll at most: quotes and a comma each.
func (l *pollLine) size() int {
	n := 0
	for name := range l.names {
		n += len(name) + len(`"",`)
		if wire.IsLocator(name) {
			n += locatorOverhead
		}
	}
	return n
}

// asked gives what resource_names mean.
func (l *pollLine) asked(names []string) []string {
	if len(names) == 0 {
		return []string{wildcard}
	}
	return names
}

// answered counts the server as there. names are what it has answered for, in a poll that
// begun at that time.
func (s *RESTSession) answered(l *pollLine, names []string, begun time.Time) {
	if slices.Equal(l.asked(names), l.list) {
		l.awaiting = false
	}
	if begun.After(l.since) {
		l.since = begun
	}
	if l.refused {
		l.refused = false
		s.noteQuarantined(l.id.TypeURL, -1)
	}
	s.up.entrance.answer(l.endpoint, time.Now())
	if l.established {
		return
	}
	l.established = true
	s.up.entrance.outages.count(1)
	l.backoff.Reset()
	clear(l.failed)
	endpoint := s.up.cfg.Endpoints[l.endpoint]
	s.up.found(l.endpoint, true)
	s.failback.arrived(l.endpoint)
	s.note(func(st *Status) { st.Streams++; st.Opened++ })
	s.obs.StreamOpened(l.id.String(), endpoint)
	s.log.Info("connected", "stream", l.id, "endpoint", endpoint)
}

// end stops the line's poller, if there is one, and leaves the line idle.
func (s *RESTSession) end(l *pollLine, reason Reason) {
	l.at, l.renew, l.standsAt, l.queued, l.asleep = time.Time{}, time.Time{}, time.Time{}, false, false
	if reason.final() {
		s.up.entrance.leave(l.ticket)
	}
	if l.poller == nil {
		return
	}
	l.stop()
	l.wg.Wait()
	l.poller = nil
	s.store.Lost(l.id)
	if l.established {
		l.established = false
		s.up.entrance.outages.count(-1)
		s.note(func(st *Status) { st.Streams-- })
		s.obs.StreamClosed(l.id.String(), reason)
	}
}

// lost ends the poller whose poll failed, and sees to the next (REST-3, OPS-2, LOC-6).
// One that was good is tried again where it was. After one that was not, the other
// endpoints have their turn: at once if this one could not be reached at all. A server
// that only does not serve the type is left for nobody's sake.
func (s *RESTSession) lost(l *pollLine, cause error) {
	endpoint, good := l.endpoint, l.established
	cause = conceal(cause, s.metadata)
	err := &ConnectionError{Endpoint: s.up.cfg.Endpoints[endpoint], Reason: pollReason(cause), Err: cause}
	if !good {
		s.obs.ConnectFailed(err.Endpoint, err.Reason)
	}
	first := l.backoff.Attempts == 0
	s.end(l, err.Reason)
	_, unreachable := errors.AsType[unreachableError](cause)
	if unreachable {
		s.up.found(endpoint, false)
	}
	atOnce := false
	switch {
	case notServed(cause):
		s.up.entrance.answer(endpoint, time.Now()) // the server is there
		if !l.refused {
			l.refused = true
			s.noteQuarantined(l.id.TypeURL, 1)
		}
	case !good || err.Reason.repeats():
		atOnce = s.failback.moveOn(endpoint, l.failed, unreachable)
	}
	var delay time.Duration
	if atOnce {
		l.at, l.atOnce = time.Now(), true
	} else if delay = s.wait(l, err); delay > 0 {
		s.obs.BackedOff(delay)
	}
	s.noteFailed(s.ctx, l.id, err, delay, first, good)
	s.settle()
}

// pollHandler brings what becomes of polls to the session's owner.
type pollHandler struct {
	session *RESTSession
	line    *pollLine
	ctx     context.Context // of the poller
}

// tell has the owner run f, unless it has ended the poller.
func (h *pollHandler) tell(f func()) {
	select {
	case h.session.events <- func() {
		if h.ctx.Err() == nil {
			f()
		}
	}:
	case <-h.ctx.Done():
	}
}

// OnResponse implements restjson.Handler.
func (h *pollHandler) OnResponse(r *restjson.Response, names []string) error {
	at, begun := time.Now(), h.line.exchange.begun
	verdict := make(chan error, 1)
	h.tell(func() { verdict <- h.session.respond(h.line, r, names, at, begun) })
	select {
	case err := <-verdict:
		return err
	case <-h.ctx.Done():
		return h.ctx.Err()
	}
}

// OnUnchanged implements restjson.Handler. It is about what the last accepted response
// was asked for. Servers that have nothing of the type say it at first too, to a poll
// that presents the version of nothing: then collections were answered, and nothing was removed.
func (h *pollHandler) OnUnchanged() {
	at, begun := time.Now(), h.line.exchange.begun
	h.tell(func() {
		s, l := h.session, h.line
		names := l.accepted
		if names == nil {
			names = l.list
			// It cannot be rejected, there is nothing in it.
			_ = s.store.Apply(l.id, &wire.DeltaResponse{TypeURL: l.id.TypeURL}, at)
		}
		s.answered(l, names, begun)
		s.settle()
	})
}

// OnError implements restjson.Handler.
func (h *pollHandler) OnError(err error) {
	at, begun := time.Now(), h.line.exchange.begun
	h.tell(func() {
		s, l := h.session, h.line
		undecodable, ok := errors.AsType[*restjson.UndecodableError](err)
		if !ok {
			s.lost(l, err)
			return
		}
		s.note(func(st *Status) { st.Responses++; st.LastResponse = at })
		s.obs.ResponseReceived(l.id.TypeURL, 0, 0, int(l.exchange.received.Load()))
		s.answered(l, l.list, begun)
		s.reject(l, undecodable.Nonce, err, at)
		s.settle()
	})
}
