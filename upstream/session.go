package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// SessionConfig describes a session.
type SessionConfig struct {
	// Node is what the control plane is shown (STR-2, AGG-3). It must not change
	// afterwards.
	Node *corev3.Node
	// Scope is what logs and Status call the session.
	Scope string
	// Store is the cache's side; required.
	Store Store
	// Observer may be shared between sessions; nil means none.
	Observer Observer
	// Metadata goes with every stream or poll beside that of the upstream, and takes the
	// place of what has the same name (ACC-6). It is never logged, nor part of Status.
	Metadata map[string][]string
}

// metadataOf joins what goes with all streams of an upstream and with those of a session.
func metadataOf(all, own map[string][]string) metadata.MD {
	md := make(metadata.MD, len(all)+len(own))
	maps.Copy(md, all)
	maps.Copy(md, own)
	return md
}

// Session is the xDS client for one scope of an upstream, in whatever variant the
// upstream speaks.
type Session struct {
	// Immutable after NewSession.
	up       *Upstream
	node     *corev3.Node
	nodeSize int // as a field of a request
	metadata metadata.MD
	store    Store
	*report

	// Owned by the goroutine in Run.
	ctx        context.Context // ends with Run
	events     chan func()     // what the session's goroutines have the owner run
	lines      []*line         // of the streams that are wanted, or still there
	batchAt    time.Time       // when demand is looked at; zero: nothing waits for that
	settleAt   time.Time       // when the Store is to settle; zero: nothing waits
	failback   *failback
	quarantine quarantine
	single     map[string]int // endpoints that refuse a second stream, by StreamID.TypeURL
	admitted   chan struct{}  // one slot: a line's ticket was admitted

	held *ackHold

	started atomic.Bool
}

// NewSession makes a session. It does nothing until Run is called.
func (u *Upstream) NewSession(cfg SessionConfig) (*Session, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("upstream %q: a session needs a store", u.cfg.Name)
	}
	size := 1 + protowire.SizeBytes(proto.Size(cfg.Node))
	if size > u.cfg.MaxRequestSize/2 {
		return nil, fmt.Errorf("upstream %q: a node of %d bytes leaves too little of a request of %d", u.cfg.Name, size, u.cfg.MaxRequestSize)
	}
	r := newReport(u.cfg.Name, u.cfg.Endpoints[0], u.cfg.Logger, cfg)
	return &Session{
		up:         u,
		node:       cfg.Node,
		nodeSize:   size,
		metadata:   metadataOf(u.cfg.Metadata, cfg.Metadata),
		store:      cfg.Store,
		report:     r,
		failback:   newFailback(u.cfg.Endpoints, u.cfg.FailbackInterval, u.health, r),
		events:     make(chan func()),
		held:       newAckHold(u.cfg.NackWait, u.cfg.NackAcks),
		admitted:   make(chan struct{}, 1),
		quarantine: newQuarantine(&u.cfg),
		single:     make(map[string]int),
	}, nil
}

// Run keeps the Store fed until ctx ends, whose error it returns, or until the
// Upstream is closed (ErrClosed). It ends then whatever the server does, with
// all streams closed and no goroutine left. It can be called once.
func (s *Session) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errRunning
	}
	if err := s.up.enter(); err != nil {
		return err
	}
	defer s.up.leave()

	if len(s.metadata) > 0 {
		ctx = metadata.NewOutgoingContext(ctx, s.metadata)
	}
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	err := s.loop()
	cancel()
	s.failback.wg.Wait()
	for _, l := range s.lines {
		s.end(l, ReasonShutdown)
	}
	for typeURL := range s.single {
		s.store.OneStream(wire.StreamID{TypeURL: typeURL}, false)
	}
	s.turn(stateOf(s.lines))
	return err
}

func (s *Session) loop() error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	s.reconcile()
	s.settle() // the store may hold what another session left, and ttls run without a stream
	for {
		s.reap()
		s.turn(stateOf(s.lines))
		if at := s.next(); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-s.ctx.Done():
			return s.ctx.Err()
		case <-s.up.closing:
			return ErrClosed
		case <-s.store.DemandChanged():
			s.gather(time.Now())
		case f := <-s.events:
			f()
		case <-s.held.news:
			s.answerHeld(time.Now())
		case <-s.admitted:
			s.admit()
		case <-timer.C:
			s.elapse(time.Now())
		}
	}
}

// next is when elapse has something to do, zero if never.
func (s *Session) next() time.Time {
	at := earlier(earlier(s.batchAt, s.settleAt), earlier(s.failback.at, s.trialAt()))
	at = earlier(at, s.held.next())
	for _, l := range s.lines {
		at = earlier(earlier(at, l.renew), earlier(l.at, l.standsAt))
	}
	return at
}

// earlier is the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// due says whether at has come, and forgets it then.
func due(at *time.Time, now time.Time) bool {
	if at.IsZero() || now.Before(*at) {
		return false
	}
	*at = time.Time{}
	return true
}

// elapse does everything whose time has come.
func (s *Session) elapse(now time.Time) {
	if due(&s.batchAt, now) {
		s.reconcile()
	}
	s.answerHeld(now)
	for _, l := range s.lines {
		if due(&l.at, now) {
			s.lineDue(l)
		}
		if due(&l.standsAt, now) {
			s.up.entrance.answer(l.stream.conn.endpoint, now)
		}
		if due(&l.renew, now) && l.open && !l.draining {
			s.demand(l)
		}
	}
	if due(&s.settleAt, now) {
		s.settle()
	}
	if due(&s.failback.at, now) {
		s.probe()
	}
	s.try(now)
}

func (s *Session) settle() { s.settleAt = s.store.Settle(time.Now()) }

// reconcile brings the streams in line with what is wanted. Of the streams that there can
// be there are few: two for each type that has a service of its own, or two for all.
func (s *Session) reconcile() {
	wanted := s.available(s.store.Streams(), func(id wire.StreamID) bool { return s.up.cfg.APIType.method(id) != "" })
	for _, id := range wanted {
		if s.line(id) == nil {
			s.lines = append(s.lines, s.newLine(id))
		}
	}
	for _, l := range s.lines {
		switch wanted := slices.Contains(wanted, l.id); {
		case wanted && l.draining:
			s.end(l, ReasonUnwanted)
			s.connect(l)
		case wanted && l.idle():
			s.begin(l)
		case wanted && l.asleep:
			s.rouse(l)
		case wanted && l.open:
			s.demand(l)
		case !wanted && l.open && !l.draining:
			if s.takeDemand(l) {
				s.drain(l)
			}
		case !wanted && !l.open:
			s.end(l, ReasonUnwanted)
		}
	}
}

// idle says that no stream is open, nor waited for.
func (s *Session) idle() bool {
	return !slices.ContainsFunc(s.lines, func(l *line) bool { return !l.idle() && !l.asleep })
}

// begin opens a stream on a line that was idle. If all are, nothing ties the session
// to the endpoint it used last.
func (s *Session) begin(l *line) {
	if s.idle() {
		s.failback.begin()
	}
	clear(l.failed)
	s.attempt(l)
}

// respond judges a response and answers it, once (STR-8).
func (s *Session) respond(l *line, r received, at time.Time) {
	r.assume(l.id.TypeURL)
	e := r.envelope()
	s.note(func(st *Status) { st.Responses++; st.LastResponse = at })
	resources, removed, bytes := r.counts()
	s.obs.ResponseReceived(e.typeURL, resources, removed, bytes)
	_, asked := l.asked[e.typeURL]
	if !asked && e.nonce == "" || e.typeURL == "" {
		// Without a type no ADS server takes an answer. Without a nonce and for a
		// type never asked for, an answer would read as a subscription (SUB-3).
		s.lost(l, errors.Join(errUnanswerable, r.broken()))
		return
	}
	s.answered(l)
	s.up.entrance.answer(l.stream.conn.endpoint, at)
	if asked {
		s.prove(e.typeURL)
	}
	if l.draining {
		return // nothing can be written any more, and its nonce ends with the stream
	}
	reason := r.broken()
	switch {
	case reason != nil:
	case !asked:
		reason = errNotAsked
	default:
		before := s.store.Sequence()
		a := s.held.expect(l, e, before, at)
		reason = r.apply(s.store, l.id, at)
		if reason == nil && a != nil {
			last := s.store.Sequence()
			s.held.applied(a, last, last != before && s.store.Heard())
			s.answerHeld(time.Now()) // a client may have been quick
			s.settle()
			return
		}
		s.held.forget(a)
		s.settle()
	}
	if reason != nil {
		s.acknowledgeType(l, e.typeURL)
	}
	s.answer(l, e, reason, at)
}

// answer acknowledges a response, or rejects it for a reason.
func (s *Session) answer(l *line, e envelope, reason error, at time.Time) {
	kind := KindAck
	if reason != nil {
		kind = KindNack
	}
	if req := l.dialect.answer(e, reason); req != nil {
		s.write(l, req, kind)
	}
	if reason != nil {
		s.noteRejected(e.typeURL, e.nonce, reason, at)
	}
}

// Tell tells the session what became of content with a client (ACK-7). It may be called from
// any goroutine, and does not block.
func (s *Session) Tell(w verdict.Word) { s.held.tell(w) }

// answerHeld writes the answers that are not held any longer.
func (s *Session) answerHeld(now time.Time) { s.answerAll(s.held.ready(now)) }

// acknowledgeType writes the answers that are held for a type on a stream: a later response
// of the type is about to be answered, or the next request answers them.
func (s *Session) acknowledgeType(l *line, typeURL string) { s.answerAll(s.held.release(l, typeURL)) }

func (s *Session) answerAll(answers []*heldAnswer) {
	for _, a := range answers {
		if a.line.draining {
			continue // nothing can be written any more, and the nonce ends with the stream
		}
		var reason error
		if a.reason != nil {
			reason = &clientError{a.reason}
		}
		s.answer(a.line, a.envelope, reason, time.Now())
	}
}
