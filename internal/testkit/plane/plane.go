package plane

import (
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

// Plane is one control plane. Its methods may be called from any goroutine; those
// that take a testing.TB only from the test's own.
type Plane struct {
	// immutable after Start
	options    []grpc.ServerOption
	addr, rest string
	divide     func(*corev3.Node) *Plane
	beside     func(grpc.ServiceRegistrar)

	lifecycle sync.Mutex // one Stop or Restart at a time; taken before mu
	server    *server    // nil while stopped; guarded by lifecycle

	mu        sync.Mutex
	behaviour Behaviour
	changed   chan struct{}                // closed and replaced when the behaviour or the contents change
	polling   map[string]int               // polls that wait, by type URL
	content   map[string]map[string]*entry // by type URL and name
	version   int                          // of the entry that changed last
	versions  map[string]int               // changes, by type URL
	held      map[string]bool              // types that are held back
	streams   map[*stream]struct{}
	opened    int      // streams
	cut       *cutting // nil: nothing is broken off
	requests  []Request
	responses []Response
}

// Start runs a plane on the loopback interface until the test ends. Options are for
// its gRPC server.
func Start(tb testing.TB, behaviour Behaviour, options ...grpc.ServerOption) *Plane {
	tb.Helper()
	p := New(behaviour, options...)
	p.Listen(tb)
	return p
}

// Listen runs a plane that is stopped on the loopback interface until the test ends.
func (p *Plane) Listen(tb testing.TB) {
	tb.Helper()
	lis, rest := ports.Listen(tb), ports.Listen(tb)
	p.addr, p.rest = lis.Addr().String(), rest.Addr().String()
	p.Serve(lis, rest)
	tb.Cleanup(p.Stop)
}

// Divide has each stream and each poll served by the plane of the node that it presents. It is called before
// the plane serves.
func (p *Plane) Divide(of func(*corev3.Node) *Plane) { p.divide = of }

// Beside has other services registered too, each time before the plane serves.
func (p *Plane) Beside(register func(grpc.ServiceRegistrar)) { p.beside = register }

// New makes a plane that is stopped, for a test that has listeners of its own. Options are
// for its gRPC server.
func New(behaviour Behaviour, options ...grpc.ServerOption) *Plane {
	return &Plane{
		options: append([]grpc.ServerOption{
			// As most control planes have it: pings of clients are no offence.
			grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
		}, options...),
		behaviour: behaviour, changed: make(chan struct{}), content: make(map[string]map[string]*entry), versions: make(map[string]int),
		held: make(map[string]bool), streams: make(map[*stream]struct{}), polling: make(map[string]int),
	}
}

// Addr is where gRPC is served, also while the plane is stopped.
func (p *Plane) Addr() string { return p.addr }

// RESTAddr is where polls are answered.
func (p *Plane) RESTAddr() string { return p.rest }

// Serve serves a plane that is stopped: streams on lis, polls on rest unless it is nil. Stop closes both.
func (p *Plane) Serve(lis, rest net.Listener) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	p.server = serve(p, lis, rest)
}

// Stop ends the plane as a crash does: connections break, and new ones are refused.
// A plane that is stopped keeps its contents.
func (p *Plane) Stop() {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.server != nil {
		p.server.stop()
		p.server = nil
	}
}

// Restart serves again at the same addresses, with the contents that the plane has
// now. A plane that runs is stopped first.
func (p *Plane) Restart(tb testing.TB) {
	tb.Helper()
	p.Stop()
	p.Serve(ports.Again(tb, p.addr), ports.Again(tb, p.rest))
}

// BreakStreams ends all gRPC streams with UNAVAILABLE, while the server stays.
func (p *Plane) BreakStreams() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		st.end()
	}
}

// Behave changes the behaviour. Streams are sent what is due by the new one.
func (p *Plane) Behave(change func(*Behaviour)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.behaviour)
	p.changedLocked()
	p.flushAllLocked(nil)
}

// changedLocked wakes the polls that wait.
func (p *Plane) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// Hold keeps everything of the types back until [Plane.Release]. Requests are taken.
func (p *Plane) Hold(typeURLs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, typeURL := range typeURLs {
		p.held[typeURL] = true
	}
}

// Release sends what was held back of the types, merged; of all types if none is
// given.
func (p *Plane) Release(typeURLs ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, typeURL := range typeURLs {
		delete(p.held, typeURL)
	}
	if len(typeURLs) == 0 {
		clear(p.held)
	}
	p.changedLocked()
	p.flushAllLocked(nil)
}

// Heartbeat renews the ttl of what the streams have of a type (TTL-3): incremental
// streams get heartbeats, the others a list of wrapped heartbeats, or what the behaviour
// wants. Resources without ttl are left out of heartbeats.
func (p *Plane) Heartbeat(typeURL string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for st := range p.streams {
		if s := st.types[typeURL]; s != nil {
			p.heartbeatLocked(st, s)
		}
	}
}

// flushAllLocked sends every stream what is due. Where touched is not nil only those
// types have changed, and wait for their delay.
func (p *Plane) flushAllLocked(touched map[string]bool) {
	for st := range p.streams {
		p.flushLocked(st, touched)
	}
}

// flushLocked sends a stream what is due, type by type in order.
func (p *Plane) flushLocked(st *stream, touched map[string]bool) {
	if p.behaviour.Mute {
		return
	}
	for _, s := range p.inOrderLocked(st) {
		if touched != nil && !touched[s.typeURL] {
			continue
		}
		p.flushTypeLocked(st, s, touched != nil)
	}
	// Clusters that went out may have made endpoints due again.
	if s := st.types[Endpoints]; s != nil && p.behaviour.RepeatEndpoints {
		p.flushTypeLocked(st, s, false)
	}
}

func (p *Plane) inOrderLocked(st *stream) []*subscription {
	var all []*subscription
	for _, s := range st.types {
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b *subscription) int {
		return rank(a.typeURL) - rank(b.typeURL)
	})
	return all
}

// flushTypeLocked sends what is due of one type, if nothing holds it back.
func (p *Plane) flushTypeLocked(st *stream, s *subscription, changed bool) {
	if p.held[s.typeURL] || p.behaviour.Mute || s.outstanding && p.behaviour.AwaitACK {
		return
	}
	if delay := p.behaviour.Delay[s.typeURL]; delay > 0 && !s.due {
		if changed && !s.delayed {
			s.delayed = true
			time.AfterFunc(delay, func() { p.delayed(st, s) })
		}
		if s.delayed {
			return
		}
	}
	s.due = false
	if st.delta {
		p.sendDeltaLocked(st, s)
	} else {
		p.sendStateLocked(st, s)
	}
}

// delayed sends what waited for its delay.
func (p *Plane) delayed(st *stream, s *subscription) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.delayed, s.due = false, true
	if _, open := p.streams[st]; open {
		p.flushTypeLocked(st, s, true)
	}
}
