package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is one client's stream.
type stream struct {
	// immutable after serve began
	server  *Server
	grpc    grpc.ServerStream
	id      uint64
	variant *variant
	peer    keyer.Peer
	since   time.Time
	bell    chan struct{} // one slot: there may be something to collect

	// owned by the handler goroutine
	log     *slog.Logger
	routes  Routes
	clients map[*cache.Store]*cache.Client
	order   []*cache.Client       // clients in the order in which they were joined
	awaits  func(string) bool     // busy, made once
	types   map[string]*typeState // changed under mu, for the admin port
	plan    uint64                // Server.plans when it last looked where its names live
	moving  bool                  // the client may hold something of another scope
	listed  time.Time             // since when its lists have nothing of another scope, if other types have
	parting time.Time             // since when there is nothing to wait for but its unsubscribing
	nonce   uint64                // the last one; counts the responses of all types
	parent  uint64                // of the last response that adds clusters or listeners (WARM-1)
	form    cache.Form            // how the client is told: fixed by the first request

	mu     sync.Mutex // guards status and shown, which the admin port reads
	status Status
	shown  uint64 // the plan that status is of
}

// serve runs a stream until the client, the server or an error ends it.
func (s *Server) serve(g grpc.ServerStream, v *variant) (err error) {
	if s.draining() {
		return status.Error(codes.Unavailable, "draining: connect to another replica")
	}
	st := s.newStream(g, v)
	s.observer.StreamOpened(v.String())
	s.mu.Lock()
	s.streams[st.id] = st
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.streams, st.id)
		s.mu.Unlock()
		st.close()
		s.observer.StreamClosed(v.String(), status.Code(err))
		st.log.Debug("stream closed", "error", err)
	}()
	return st.run(g.Context())
}

func (s *Server) newStream(g grpc.ServerStream, v *variant) *stream {
	st := &stream{
		server:  s,
		grpc:    g,
		id:      s.lastID.Add(1),
		variant: v,
		peer:    peerOf(g.Context()),
		since:   time.Now(),
		bell:    make(chan struct{}, 1),
		clients: make(map[*cache.Store]*cache.Client),
		types:   make(map[string]*typeState),
		plan:    s.plans.Load(), // before routes are opened: one that comes in between is looked at
	}
	st.shown = st.plan
	st.awaits = st.busy
	st.log = s.log.With("stream", st.id, "peer", st.peer.Addr)
	return st
}

// run is the handler: it takes requests, and sends when the bell rings. The
// second goroutine ends when the stream's context does, which is when run has
// returned at the latest; Stop and Drain wait for it.
func (st *stream) run(ctx context.Context) error {
	requests := make(chan discoveryRequest)
	received := make(chan error, 1)
	st.server.receivers.Go(func() { received <- st.receive(ctx, requests) })

	overdue := time.NewTimer(time.Hour)
	overdue.Stop()
	defer overdue.Stop()
	drain := st.server.drain
	var leave <-chan time.Time
	for {
		select {
		case r := <-requests:
			if err := st.reroute(); err != nil {
				return err
			}
			if err := st.request(&r); err != nil {
				return err
			}
			// What arrived together is answered together.
			if err := st.requestsAtHand(requests); err != nil {
				return err
			}
		case err := <-received:
			return err
		case <-st.bell:
			if err := st.reroute(); err != nil {
				return err
			}
		case <-overdue.C:
		case <-drain:
			drain = nil
			leave = time.After(rand.N(time.Duration(st.server.spread.Load()) + 1)) //nolint:gosec // spreading, not secrecy
			continue
		case <-leave:
			return status.Error(codes.Unavailable, "draining: connect to another replica")
		}
		next, err := st.pass()
		if err != nil {
			return err
		}
		if next > 0 {
			overdue.Reset(next)
		}
	}
}

// receive hands over the client's requests, one at a time.
func (st *stream) receive(ctx context.Context, requests chan<- discoveryRequest) error {
	for {
		r, err := st.variant.receive(st.grpc)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		select {
		case requests <- r:
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
	}
}

// requestsAtHand takes what further requests have arrived by now.
func (st *stream) requestsAtHand(requests <-chan discoveryRequest) error {
	for range maxParts {
		select {
		case r := <-requests:
			if err := st.request(&r); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// featureTTL is what a client announces that can do resource ttl (TTL-1).
const featureTTL = "xds.config.supports-resource-ttl"

// begin takes the node from the stream's first request (STR-1). names are what that
// subscribes to in the state of the world.
func (st *stream) begin(node *corev3.Node, names []string) {
	st.routes = st.server.config.Router.Open(node, st.peer)
	features := node.GetClientFeatures()
	st.form.State = st.variant.form == stateForm
	st.form.Wrapped = st.form.State && wraps(node, names)
	// The state of the world has no place for a ttl but the wrapping (TTL-1).
	st.form.TTL = slices.Contains(features, featureTTL) && (!st.form.State || st.form.Wrapped)
	st.mu.Lock()
	st.status.Node, st.status.Cluster = clip(node.GetId()), clip(node.GetCluster())
	st.mu.Unlock()
	st.log = st.log.With("node", clip(node.GetId()))
	st.log.Debug("stream opened")
}

// client gives the stream's place in a store.
func (st *stream) client(s *cache.Store) *cache.Client {
	c := st.clients[s]
	if c == nil {
		c = s.Join(st.bell, st.form)
		st.clients[s] = c
		st.order = append(st.order, c)
	}
	return c
}

// close gives the stream's places back.
func (st *stream) close() {
	for _, t := range st.types {
		st.server.observer.Subscribed(t.url, -t.subscriptions)
	}
	for _, c := range st.order {
		c.Leave()
	}
	if st.routes != nil {
		st.routes.Close()
	}
}

// peerOf is the client's address and TLS identity.
func peerOf(ctx context.Context) keyer.Peer {
	p, ok := peer.FromContext(ctx)
	if !ok {
		return keyer.Peer{}
	}
	if info, ok := p.AuthInfo.(credentials.TLSInfo); ok {
		return identify(p.Addr.String(), &info.State)
	}
	return identify(p.Addr.String(), nil)
}

// identify gives a peer the identity of its certificate, if that was verified.
func identify(addr string, state *tls.ConnectionState) keyer.Peer {
	var id keyer.Peer
	if state != nil && len(state.VerifiedChains) > 0 {
		id = keyer.PeerFromCertificate(state.PeerCertificates[0])
	}
	id.Addr = addr
	return id
}
