package upstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// RESTSession feeds one Store by polling (REST-3): each of the Store's streams, that is
// each type and kind, has a poller. The Store must have streams per type
// (cache.Source.PerType), and take states of the world.
//
// A stream begins anew (Store.Restart) with each poller, and is lost with the first
// poll that fails. Then the next poller, there or at another endpoint, knows nothing of
// what was said before: a server that was restarted may use the version that is held
// for other contents (ACK-4).
type RESTSession struct {
	// Immutable after NewSession.
	up       *REST
	node     *corev3.Node
	nodeSize int
	store    Store
	metadata metadata.MD
	*report

	// Owned by the goroutine in Run.
	ctx      context.Context // ends with Run
	events   chan func()     // what the session's goroutines have the owner run
	lines    []*pollLine     // of the streams that are wanted
	batchAt  time.Time       // when demand is looked at; zero: nothing waits for that
	settleAt time.Time       // when the Store is to settle; zero: nothing waits
	failback *failback
	admitted chan struct{} // one slot: a line's ticket was admitted

	started atomic.Bool
}

// NewSession makes a session. It does nothing until Run is called.
func (u *REST) NewSession(cfg SessionConfig) (*RESTSession, error) {
	if cfg.Store == nil {
		return nil, fmt.Errorf("upstream %q: a session needs a store", u.cfg.Name)
	}
	size := proto.Size(cfg.Node)
	if size > u.cfg.MaxRequestSize/2 {
		return nil, fmt.Errorf("upstream %q: a node of %d bytes leaves too little of a request of %d", u.cfg.Name, size, u.cfg.MaxRequestSize)
	}
	r := newReport(u.cfg.Name, u.cfg.Endpoints[0], u.cfg.Logger, cfg)
	return &RESTSession{
		up: u, node: cfg.Node, nodeSize: size, store: cfg.Store,
		metadata: metadataOf(u.cfg.Metadata, cfg.Metadata),
		report:   r, events: make(chan func()), admitted: make(chan struct{}, 1),
		failback: newFailback(u.cfg.Endpoints, u.cfg.FailbackInterval, u.health, r),
	}, nil
}

// Tell does nothing: what a poll brought is acknowledged by the next one, which
// waits for nobody, so nack_wait has no meaning here (ACK-7).
func (s *RESTSession) Tell(verdict.Word) {}

// Run keeps the Store fed until ctx ends, whose error it returns, or until the REST is
// closed (ErrClosed), with no poll left under way. It can be called once.
func (s *RESTSession) Run(ctx context.Context) error {
	if !s.started.CompareAndSwap(false, true) {
		return errRunning
	}
	if err := s.up.enter(); err != nil {
		return err
	}
	defer s.up.leave()
	ctx, cancel := context.WithCancel(ctx)
	s.ctx = ctx
	err := s.loop()
	cancel()
	s.failback.wg.Wait()
	for _, l := range s.lines {
		s.end(l, ReasonShutdown)
	}
	s.turn(StateIdle)
	return err
}

func (s *RESTSession) loop() error {
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
		case <-s.admitted:
			s.admit()
		case <-timer.C:
			s.elapse(time.Now())
		}
	}
}

// next is when elapse has something to do, zero if never.
func (s *RESTSession) next() time.Time {
	at := earlier(earlier(s.batchAt, s.settleAt), s.failback.at)
	for _, l := range s.lines {
		at = earlier(earlier(at, l.standsAt), earlier(l.at, l.renew))
	}
	return at
}

// elapse does everything whose time has come.
func (s *RESTSession) elapse(now time.Time) {
	if due(&s.batchAt, now) {
		s.reconcile()
	}
	for _, l := range s.lines {
		if due(&l.at, now) {
			s.attempt(l)
		}
		if due(&l.standsAt, now) {
			s.up.entrance.answer(l.endpoint, now)
		}
		if due(&l.renew, now) && l.poller != nil {
			s.demand(l)
		}
	}
	if due(&s.settleAt, now) {
		s.settle()
	}
	if due(&s.failback.at, now) {
		s.probe()
	}
}

// settle has the Store settle. Where a server is silent about what it was asked last
// no clock runs: while a poll hangs nobody can say that what it asked for does not
// exist (RES-7). Such a poll ends with the poll timeout, and an answer settles too. As the
// clocks of all names of the type begin anew then, those that were answered for included,
// a server is not silent before the clock of one that was not has run out.
func (s *RESTSession) settle() {
	now, after := time.Now(), cmp.Or(s.up.cfg.AbsentAfter, silence)
	for _, l := range s.lines {
		if l.poller != nil {
			s.store.Withhold(l.id, l.id.TypeURL, l.silent(now, after))
		}
	}
	s.settleAt = s.store.Settle(now)
}

// reconcile brings the pollers in line with what is wanted. Of the pollers that there can
// be there are few: two for each type that has a path.
func (s *RESTSession) reconcile() {
	wanted := s.available(s.store.Streams(), polled)
	for _, id := range wanted {
		if s.line(id) == nil {
			s.lines = append(s.lines, s.newLine(id))
		}
	}
	for _, l := range s.lines {
		switch wanted := slices.Contains(wanted, l.id); {
		case l.broken:
		case !wanted:
			s.end(l, ReasonUnwanted)
		case l.poller != nil:
			s.demand(l)
		case l.asleep:
			s.rouse(l)
		case l.idle():
			s.begin(l)
		}
	}
}

// polled reports whether a stream's type can be polled for.
func polled(id wire.StreamID) bool {
	_, ok := restjson.Path(id.TypeURL)
	return ok
}

// line finds the line of a stream, nil if there is none.
func (s *RESTSession) line(id wire.StreamID) *pollLine {
	for _, l := range s.lines {
		if l.id == id {
			return l
		}
	}
	return nil
}

// begin starts a line that was idle. If all are, nothing ties the session to the
// endpoint it used last.
func (s *RESTSession) begin(l *pollLine) {
	if s.idle() {
		s.failback.begin()
	}
	clear(l.failed)
	s.attempt(l)
}

func (s *RESTSession) idle() bool {
	return !slices.ContainsFunc(s.lines, func(l *pollLine) bool { return !l.idle() && !l.asleep })
}

// reap forgets the lines that are idle and not wanted.
func (s *RESTSession) reap() {
	s.lines = slices.DeleteFunc(s.lines, func(l *pollLine) bool {
		gone := l.idle() && !s.store.StreamWanted(l.id)
		if gone && l.refused {
			s.noteQuarantined(l.id.TypeURL, -1)
		}
		return gone
	})
}

// respond takes a response and gives the reason for which it is rejected (ACK-6).
func (s *RESTSession) respond(l *pollLine, r *restjson.Response, names []string, at, begun time.Time) error {
	s.note(func(st *Status) { st.Responses++; st.LastResponse = at })
	s.obs.ResponseReceived(l.id.TypeURL, len(r.Resources), 0, int(l.exchange.received.Load()))
	if r.Discarded != "" && l.discarded != r.Discarded {
		s.log.Warn("response holds what this build does not know and JSON cannot pass on", "type", l.id.TypeURL, "first", r.Discarded)
	}
	l.discarded = r.Discarded
	s.answered(l, names, begun)
	err := s.store.ApplyState(l.id, &wire.StateResponse{
		TypeURL: l.id.TypeURL, Nonce: r.Nonce, VersionInfo: r.VersionInfo, Resources: r.Resources, Errors: r.Errors,
		Unnamed: r.Unnamed, ControlPlane: r.ControlPlane,
	}, at)
	if err != nil {
		s.reject(l, r.Nonce, err, at)
	} else {
		l.accepted = l.asked(names)
		l.exchange.answer(KindAck)
	}
	s.settle()
	return err
}

// reject notes that a response was refused, of which the next poll tells the server.
func (s *RESTSession) reject(l *pollLine, nonce string, reason error, at time.Time) {
	l.exchange.answer(KindNack)
	s.noteRejected(l.id.TypeURL, nonce, reason, at)
}
