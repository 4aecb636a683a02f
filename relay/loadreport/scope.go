package loadreport

import (
	"context"
	"log/slog"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// lastTry is how long a scope without clients goes on trying to send what it has.
const lastTry = time.Minute

// Source opens streams to the control plane of one scope. Its methods may be called from any
// goroutine.
type Source interface {
	// Open opens a stream. Its error is ErrUnserved if there is nothing to open one to.
	Open(ctx context.Context) (Stream, error)
	// Hold keeps the source usable until release is called.
	Hold() (release func())
}

// Stream is one to a control plane. Send is called by one goroutine, and Receive by another.
type Stream interface {
	Send(proto.Message) error
	Receive(proto.Message) error
	// CloseSend says that nothing more will be sent.
	CloseSend()
	// Close ends the stream, and Send and Receive with it.
	Close()
	// Node is what the control plane is shown, and MaxRequest bounds a request, in bytes.
	Node() *corev3.Node
	MaxRequest() int
	// Current reports whether another stream would still go the same way.
	Current() bool
}

// Scopes are all scopes of a relay. What they keep has one limit.
type Scopes struct {
	// Panics catches panics (SUR-6); nil: none is caught. It is to be set before anything is used.
	Panics *logs.Panics

	ctx     context.Context
	running sync.WaitGroup
	total   budget
}

// NewScopes returns scopes that end with ctx, and send nothing any more then.
func NewScopes(ctx context.Context) *Scopes {
	return &Scopes{ctx: ctx, total: budget{limit: maxTotalBytes, reason: DroppedTotal}}
}

// Wait waits until all scopes without clients have sent what they had, or ctx ends.
func (s *Scopes) Wait(ctx context.Context) {
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		s.running.Wait()
		close(done)
	})
	select {
	case <-done:
		wg.Wait()
	case <-ctx.Done():
	}
}

// Scope has the clients of one scope, and what they reported. Its methods may be called from
// any goroutine.
type Scope struct {
	// immutable after NewScope
	all      *Scopes
	source   Source
	gate     *Gate
	observer Observer
	log      *slog.Logger
	room     budget
	wake     chan struct{} // one slot: the goroutine has something to look at

	mu      sync.Mutex // guards what follows
	running bool       // there is a goroutine
	state   State      // of the goroutine
	sentAt  time.Time  // when a report was last sent; zero: never
	clients int
	leftAt  time.Time // when the last client left
	sums    *sums
	rounds  uint64 // counts the sums that there were
	gauges  gauges
	answer  *answer       // what clients are told; nil: the control plane has not answered
	failure error         // what ends the clients' streams; nil: nothing
	changed chan struct{} // closed when answer or failure changes
}

// NewScope returns a scope without clients. It does nothing before one joins.
func (s *Scopes) NewScope(source Source, gate *Gate, o Observer, log *slog.Logger) *Scope {
	return &Scope{
		all: s, source: source, gate: gate, observer: o, log: log,
		room: budget{limit: maxScopeBytes, reason: DroppedScope, parent: &s.total},
		wake: notify.New(), sums: newSums(0), gauges: make(gauges), changed: make(chan struct{}),
	}
}

// Join takes a client in. The error is a status: that of a control plane that is known to
// have no such service, unless it has answered this very scope. The node's id is for the log.
func (s *Scope) Join(node string) (*Client, error) {
	if err := s.gate.Check(); err != nil && !s.answered() {
		s.observer.Refused(RefusedUnserved)
		return nil, err
	}
	release := s.source.Hold()
	s.mu.Lock()
	s.clients++
	begins := !s.running
	if begins {
		s.running, s.state, s.failure = true, StateConnecting, nil
		s.all.running.Go(func() {
			defer release()
			s.all.Panics.Loop(s.all.ctx, logs.PartLoadReports, s.run)
		})
	}
	s.mu.Unlock()
	if !begins {
		release()
	}
	s.observer.Joined()
	return &Client{scope: s, node: clip(node)}, nil
}

// answered reports whether the clients that are there know what the control plane wants.
func (s *Scope) answered() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answer != nil
}

// Close drops what a scope has that is used no longer.
func (s *Scope) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// drop drops what was not sent. The caller holds mu.
func (s *Scope) drop() {
	if n := len(s.sums.clusters); n > 0 {
		s.observer.Dropped(DroppedUnsent, n)
		s.log.Warn("dropped load reports that could not be sent", "clusters", n)
	}
	s.room.give(s.sums.bytes)
	s.begin()
}

// begin begins new sums. The caller holds mu.
func (s *Scope) begin() {
	s.rounds++
	s.sums = newSums(s.rounds)
}

// run has a stream to the control plane as long as it is needed.
func (s *Scope) run() {
	retry := retry.Backoff{Base: retryBase, Max: retryMax}
	for !s.over() {
		wait, admitted, err := s.gate.enter()
		switch {
		case err != nil:
			s.fail(err)
			return
		case wait > 0:
			s.sleep(wait)
			continue
		}
		answered, err := s.connectOrFail(admitted)
		counts := s.gate.left(admitted, err)
		switch {
		case err == nil || s.all.ctx.Err() != nil:
			continue
		case !counts:
			s.log.Info("the stream of load reports ended, and the next one goes where a reload has it go", "error", err)
			continue
		case status.Code(err) == codes.Unimplemented:
			s.log.Info("the control plane has no load reporting service", "error", err, "asked_again_after", unservedFor)
			s.fail(ErrUnserved)
			return
		}
		s.observer.Failed()
		s.log.Info("the stream of load reports ended", "error", err)
		if answered {
			retry.Reset()
		}
		s.sleep(retry.Next())
	}
}

// connectOrFail is connect, and a failure if that panics.
func (s *Scope) connectOrFail(admitted ticket) (answered bool, err error) {
	defer s.all.Panics.Catch(logs.PartLoadReports, func(e *logs.PanicError) { err = e })
	return s.connect(admitted)
}

// over reports whether a stream is needed no longer, and notes that the goroutine ends then.
func (s *Scope) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.all.ctx.Err() == nil && (s.clients > 0 || len(s.sums.clusters) > 0 && time.Since(s.leftAt) < lastTry) {
		return false
	}
	// A client that comes later is told what the control plane says then.
	s.running, s.answer = false, nil
	return true
}

// deserted reports whether no client is there, and whether something is left to be sent.
func (s *Scope) deserted() (deserted, left bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.clients == 0, len(s.sums.clusters) > 0
}

// sleep waits, but not if nobody is there for whom that would be good.
func (s *Scope) sleep(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-s.all.ctx.Done():
			return
		case <-s.wake:
			if deserted, left := s.deserted(); deserted && !left {
				return
			}
		}
	}
}

// fail ends the streams of all clients: the control plane has no such service. The goroutine
// ends.
func (s *Scope) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running, s.answer, s.failure = false, nil, err
	s.drop()
	s.tell()
}

// tell has the clients look what changed. The caller holds mu.
func (s *Scope) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// respond takes what the control plane wants.
func (s *Scope) respond(r *loadv3.LoadStatsResponse) {
	a := answerOf(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.answer.equal(a) {
		s.answer = a
		s.tell()
	}
}

// take takes the sums out, and makes a report of them.
func (s *Scope) take() (out *sums, stats []*endpointv3.ClusterStats) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out = s.sums
	s.begin()
	s.sums.above = out.weight
	stats = out.report(s.gauges)
	return out, stats
}

// settle notes that sums that were taken have been sent, or takes back those that were not.
func (s *Scope) settle(out *sums, sent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sent {
		s.sums.above = weight{}
		s.room.give(out.bytes)
		return
	}
	out.merge(s.sums)
	s.sums = out
}
