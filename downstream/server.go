package downstream

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"
)

// The flow-control windows of a connection and of a stream. Fixed windows turn gRPC's bandwidth
// estimation off: that would send a ping after each ACK, which costs more than the ACK.
//
// A stream's window is what a client may have in the relay's memory before the handler reads it. A handler
// that reads a longer message makes room for it. The window has room for what clients send at once that do
// not read meanwhile: a client that cannot go on sending before it reads, and a handler that cannot go on
// before the client reads, would wait for each other.
const (
	connWindow   = 1 << 20
	streamWindow = 256 << 10
)

// maxHeaders is how many bytes of metadata a stream may begin with, as for HTTP requests of polls. They are
// in memory as long as the stream is.
const maxHeaders = 64 << 10

// handshakeTimeout is how long the handshakes of a new connection may take. It is short, because Stop
// and Drain wait for them, and long enough for thousands of TLS handshakes at once after a restart.
const handshakeTimeout = 10 * time.Second

// Server serves the discovery services to clients.
type Server struct {
	// immutable after NewServer
	shared  *shared
	polling *polling
	closing *closing
	grpc    *grpc.Server
	health  healthState

	gone departed // streams that ended lately

	handlers sync.WaitGroup // of polls; none is added once the server drains or has stopped

	mu      sync.Mutex        // guards what follows
	members map[uint64]member // streams and held polls, by ID
	calls   map[*call]struct{}
	watches map[*identity.Client]int // those of calls, by connection
	usage   quota.Usage              // of members and calls
	polled  int                      // handlers of polls
}

// member is a stream or a held poll.
type member interface {
	ring()
	nodeID() string
	status(details delivery.Wanted) Status
	census(to *census)
}

// NewServer returns a server that is not serving yet.
func NewServer(c Config) *Server {
	closing := newClosing()
	s := &Server{
		shared:  newShared(c),
		polling: newPolling(closing),
		closing: closing,
		members: make(map[uint64]member),
		calls:   make(map[*call]struct{}),
		watches: make(map[*identity.Client]int),
		health:  healthState{server: health.NewServer()},
	}
	c = s.shared.config
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(s.shared.codec),
		grpc.MaxRecvMsgSize(freeUnfinished), // of messages that are not received in parts: none, unless gRPC has changed
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connWindow),
		grpc.WaitForHandlers(true),
		grpc.ConnectionTimeout(handshakeTimeout),
		// Clients decide how often they ping. A fleet that is cut off for its pings would come
		// back at once.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: time.Second, PermitWithoutStream: true}),
	}
	if c.Credentials != nil {
		opts = append(opts, grpc.Creds(c.Credentials))
	}
	s.grpc = grpc.NewServer(append(opts, c.GRPC...)...)
	for i := range services {
		s.grpc.RegisterService(s.describe(&services[i]), s)
	}
	own := gate{s}
	healthpb.RegisterHealthServer(own, s.health.server)
	if c.DebugServices {
		reflection.Register(own)
		service.RegisterChannelzServiceToServer(own)
	}
	return s
}

// Contain has panics caught: one in the serving of a client ends its stream with INTERNAL, or its
// poll with 500 (SUR-6). suspect is told then of each store that the client used, from any goroutine.
// It must not block. Contain is to be called before Serve.
func (s *Server) Contain(panics *logs.Panics, suspect func(*cache.Store)) {
	s.shared.safety = safety{panics, suspect}
}

// Admit has a decide which clients a server takes on. It is to be called before Serve.
func (s *Server) Admit(a Admission) { s.shared.admission = a }

// Identified has f called for each stream of a client first. It gives the stream to go on with, whose
// context says who the client is, or the status with which the stream ends. It is to be called before
// Serve. A function that has returned takes no stack of a stream at rest, as an interceptor would.
func (s *Server) Identified(f func(g grpc.ServerStream) (grpc.ServerStream, error)) {
	s.shared.identified = f
}

// describe describes a service to gRPC. The stubs that are generated for v3 would do for half of the
// services only. All services have the same messages.
func (s *Server) describe(v *xds.Service) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: v.Name, HandlerType: (*any)(nil)}
	for _, m := range []struct {
		name string
		form form
	}{{v.State, stateForm}, {v.Delta, deltaForm}} {
		if m.name == "" {
			continue
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: m.name, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, g grpc.ServerStream) (err error) {
				defer s.shared.safety.panics.Catch(logs.PartClient, func(e *logs.PanicError) { err = failed(e) })
				g, err = s.enter(g, &variant{m.form, v})
				if g == nil {
					return err
				}
				return s.serve(g, &variant{m.form, v})
			},
		})
	}
	if v.Fetch != "" {
		d.Streams = append(d.Streams, grpc.StreamDesc{StreamName: v.Fetch, Handler: func(_ any, g grpc.ServerStream) error {
			_, _, err := s.pass(g)
			return err
		}})
	}
	return d
}

// Serve accepts clients on lis until Stop or Drain, and closes lis. The error is the listener's; nil
// after Stop and Drain.
func (s *Server) Serve(lis net.Listener) error {
	s.health.begin(s.grpc)
	return s.grpc.Serve(lis)
}

// serve is the handler of a stream. It runs until the client, the server or an error ends the stream.
func (s *Server) serve(g grpc.ServerStream, v *variant) (err error) {
	st := newStream(s.shared, g, v)
	if err := s.open(st); err != nil {
		st.link.refused = true
		st.farewell(s.closing, err)
		return err
	}
	observer := s.shared.observer
	observer.StreamOpened(v.String())
	defer func() {
		if s.shared.safety.panics != nil {
			if v := recover(); v != nil {
				err = st.broke(v)
			}
		}
		err = st.link.close(err) // first: a sender might wait for the client for ever
		s.left(st)
		st.nodeless.drop()
		st.owner.take() // for good
		st.close()
		observer.StreamClosed(v.String(), status.Code(err))
		gone := st.ended(s.closing, err)
		st.log(slog.LevelInfo).Info("stream closed", "variant", gone.Variant, "why", gone.Why, "code", gone.Code, "reason", gone.Reason,
			"open", gone.At.Sub(gone.Since).Round(time.Millisecond))
		st.farewell(s.closing, err)
		s.gone.add(gone)
	}()
	return st.serve()
}

// open adds a new stream, unless the server is draining or there are too many.
func (s *Server) open(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if isClosed(s.closing.drained) {
		return ErrDraining
	}
	if st.link.transport() == nil {
		return errEnds
	}
	return s.add(st.standing.id, st)
}

// add adds a stream or poll to the members, unless there are too many. The caller holds mu.
func (s *Server) add(id uint64, m member) error {
	if err := s.takePlace(quota.ClientOf(peerOfMember(m))); err != nil {
		return err
	}
	s.members[id] = m
	return nil
}

// takePlace counts one more stream, poll or call, unless there are too many. The caller holds mu.
func (s *Server) takePlace(who quota.Client) error {
	places := s.shared.limits.Load().PerClient.places()
	limit, err := turnedAway(s.usage.Admit(places, len(s.members)+len(s.calls), 1, who, s.clientsOf()))
	if err != nil {
		s.shared.observer.Limited(limit)
	}
	return err
}

// remove removes a stream or poll from the members. The caller holds mu.
func (s *Server) remove(id uint64, m member) {
	delete(s.members, id)
	s.leavePlace(quota.ClientOf(peerOfMember(m)))
}

// leavePlace counts a stream, poll or call no longer that was removed. The caller holds mu.
func (s *Server) leavePlace(who quota.Client) {
	s.usage.Release(s.shared.limits.Load().PerClient.places(), len(s.members)+len(s.calls), 1, who)
}

// clientsOf lists the clients of members and calls, each with one place.
func (s *Server) clientsOf() iter.Seq2[quota.Client, int] {
	return func(yield func(quota.Client, int) bool) {
		for _, m := range s.members {
			if !yield(quota.ClientOf(peerOfMember(m)), 1) {
				return
			}
		}
		for c := range s.calls {
			if !yield(c.who, 1) {
				return
			}
		}
	}
}

func peerOfMember(m member) *keyer.Peer {
	if p, ok := m.(*poll); ok {
		return &p.standing.peer
	}
	return &m.(*stream).standing.peer
}

// left removes a stream that has ended.
func (s *Server) left(st *stream) {
	defer st.shared.retirements.end(st.standing.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(st.standing.id, st)
}

// SetLimits replaces the limits. They are in force for a stream from its next request and its next
// response, and for new polls. A stream with more subscriptions than the limit keeps them, and gets no
// more. SetLimits may be called from any goroutine.
func (s *Server) SetLimits(l Limits) { s.shared.setLimits(l) }

// SetShort tells a server whether memory is short, so that [ClientLimits].NamesWhileShort is in force (LIM-3). What clients
// subscribe to already stays. It may be called from any goroutine.
func (s *Server) SetShort(is bool) { s.shared.names.memory(is) }

// Serving reports whether any stream or poll is served now: it was sent something, or it has been there for so long
// that it would have ended otherwise (ABS-2, SUR-5). It may be called from any goroutine.
func (s *Server) Serving(long time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		if st, ok := m.(*stream); !ok || st.servedBy(long) {
			return true // a poll that is held has what there is
		}
	}
	return false
}

// SetIdentifier changes the relay's own part of the control plane identifier (STR-10).
func (s *Server) SetIdentifier(own string) { s.shared.identifier.Store(&own) }

// Reroute is called when the router begins to answer by another plan. Every stream and every held poll
// compares where its names live. If a name moved, the stream or poll ends at a random moment within
// spread. Reroute returns at once.
func (s *Server) Reroute(spread time.Duration) {
	s.shared.plans.spread.set(spread)
	s.shared.plans.number.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.members {
		m.ring()
	}
}

// present lists the members, for a caller that is not to hold mu while it goes through them.
func (s *Server) present() []member {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.members))
}

// End ends each stream for whose context why gives a status.
func (s *Server) End(why func(context.Context) error) {
	for _, m := range s.present() {
		if st, ok := m.(*stream); ok { // polls judge for themselves
			if err := why(st.link.grpc.Context()); err != nil {
				_ = st.link.close(err)
			}
		}
	}
}

// Retire has each stream end for whose context old says that its connection is. A stream ends between
// responses: when the client was sent everything, has acknowledged it, and no removal waits for its time
// (ADS-1). If that does not come, because the client does not acknowledge, a later call cuts the stream
// off. Retire is to be called every now and then.
func (s *Server) Retire(old func(context.Context) bool) {
	for _, m := range s.present() {
		if st, ok := m.(*stream); ok && old(st.link.grpc.Context()) { // polls have short lives
			st.retire()
		}
	}
}

// Clients lists the open streams and the held polls by ID, those of the nodes that of reports; nil: all. The names
// that details wants are listed; nil: none. It locks one stream at a time, while that is at rest.
func (s *Server) Clients(of func(node string) bool, details delivery.Wanted) []Status {
	var all []Status
	for _, m := range s.present() {
		if of == nil || of(m.nodeID()) {
			all = append(all, m.status(details))
		}
	}
	slices.SortFunc(all, func(a, b Status) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// Turn takes the server's lock and releases it. It returns as soon as nobody holds it (SUR-5).
func (s *Server) Turn() {
	s.mu.Lock()
	s.mu.Unlock() //nolint:staticcheck,gocritic // because nothing is done under it
}

// Sending returns how many streams the senders have taken from their queue so far, and whether any
// waits there (SUR-5).
func (s *Server) Sending() (taken uint64, waiting bool) { return s.shared.senders.progress() }

// Drain refuses new streams and polls and ends the present ones, each at a random moment within
// spread, so that the fleet does not arrive elsewhere all at once (OPS-4). Drain returns when all have
// ended. If ctx ends first, Drain cuts off the rest: a client that does not read does not learn that
// it has to go.
func (s *Server) Drain(ctx context.Context, spread time.Duration) {
	s.beginDrain(spread)
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.grpc.GracefulStop()
		s.handlers.Wait()
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.cutOff()
		<-done
	}
	s.shared.senders.stop()
}

// beginDrain has the present streams leave, and polls by closing.drained. No stream and no poll begins
// after it.
func (s *Server) beginDrain(spread time.Duration) {
	s.health.server.Shutdown()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closing.drain(spread) {
		return
	}
	for _, m := range s.members {
		if st, ok := m.(*stream); ok { // polls wait for closing.drained
			time.AfterFunc(s.closing.spread.moment(), func() { _ = st.link.close(ErrDraining) })
		}
	}
}

// Stop cuts all streams and polls off, and waits for their ends. If a client does not read the answer
// to its poll, the poll ends with the connection, or after pollWriteTime.
func (s *Server) Stop() {
	s.cutOff()
	s.shared.senders.stop()
	s.handlers.Wait()
}

// cutOff ends everything. No poll begins after it.
func (s *Server) cutOff() {
	s.mu.Lock()
	s.closing.stop()
	s.mu.Unlock()
	s.grpc.Stop()
}
