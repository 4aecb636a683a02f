package downstream

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is one client's stream.
type stream struct {
	// immutable after serve began
	server    *Server
	grpc      grpc.ServerStream
	transport statusWriter // of the same
	id        uint64
	variant   *variant
	peer      keyer.Peer
	since     time.Time
	wake      func() // ring, made once

	turn   turn
	rung   atomic.Bool // there may be something to send: cleared by who looks
	queued atomic.Bool // by the senders

	// owned by whose turn it is
	routes  Routes
	order   []*cache.Client   // its places in stores, as they were joined
	awaits  func(string) bool // busy, made once
	types   []*typeState      // a few; changed under mu, for the admin port
	plan    uint64            // Server.plans when it last looked where its names live
	moving  bool              // the client may hold something of another scope
	listed  time.Time         // since when its lists have nothing of another scope, if other types have
	parting time.Time         // since when there is nothing to wait for but its unsubscribing
	nonce   uint64            // the last response's number, over all types
	parent  uint64            // of the last response that adds clusters or listeners (WARM-1)
	form    cache.Form        // how the client is told: fixed by the first request
	calm    bool              // nothing was left by the last pass that an acknowledgement could let go
	last    uint32            // bytes of the last response
	sender  *sender           // whose turn it is; nil: the reader
	alarm   *time.Timer       // rings; nil: none is set
	alarmAt time.Time         // when; zero: it has gone off

	// Bytes of responses: all, those that the client has read for sure, and those that it has
	// if it acknowledges the one with markNonce.
	written, read, mark uint64
	markNonce           uint64

	mu      sync.Mutex // guards what follows, which the admin port reads, and the end
	status  standing
	shown   uint64 // the plan that status is of
	ended   bool
	failure error // why; nil: in good order
}

// serve runs a stream until the client, the server or an error ends it.
func (s *Server) serve(g grpc.ServerStream, v *variant) (err error) {
	st := s.newStream(g, v)
	if err := s.open(st); err != nil {
		return err
	}
	s.observer.StreamOpened(v.String())
	defer func() {
		err = st.end(err) // first, or a sender might wait for the client for ever
		s.mu.Lock()
		delete(s.streams, st.id)
		s.mu.Unlock()
		st.turn.take() // for good
		st.close()
		s.observer.StreamClosed(v.String(), status.Code(err))
		st.log(slog.LevelDebug).Debug("stream closed", "error", err)
	}()
	return st.serve()
}

// open takes a new stream in, unless the server is draining.
func (s *Server) open(st *stream) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.draining() {
		return errDraining
	}
	if st.transport == nil {
		return errEnds
	}
	s.streams[st.id] = st
	return nil
}

func (s *Server) newStream(g grpc.ServerStream, v *variant) *stream {
	st := &stream{
		server:    s,
		grpc:      g,
		transport: transportOf(g),
		id:        s.lastID.Add(1),
		variant:   v,
		peer:      peerOf(g.Context()),
		since:     time.Now(),
		plan:      s.plans.Load(), // before routes are opened: one that comes in between is looked at
	}
	st.shown = st.plan
	st.awaits, st.wake = st.busy, st.ring
	return st
}

// serve is the handler: it takes the client's requests, carries them out and sends what they
// ask for. What is due later is sent by the senders.
func (st *stream) serve() error {
	for {
		r, err := st.variant.receive(st.grpc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.answer(&r); err != nil {
			return err
		}
	}
}

// answer carries out a request and sends what the client lacks then.
func (st *stream) answer(r *discoveryRequest) error {
	st.turn.take()
	defer st.yield()
	if err := st.reroute(); err != nil {
		return err
	}
	if err := st.request(r); err != nil {
		return err
	}
	if st.calm && !st.rung.Load() {
		return nil // most requests are acknowledgements, after which nothing is due
	}
	return st.pass()
}

// featureTTL is what a client announces that can do resource ttl (TTL-1).
const featureTTL = "xds.config.supports-resource-ttl"

// begin takes the node from the stream's first request (STR-1). names are what that
// subscribes to in the state of the world.
func (st *stream) begin(node *corev3.Node, names []string) {
	st.routes = st.server.config.Router.Open(node, &st.peer)
	features := node.GetClientFeatures()
	st.form.State = st.variant.form == stateForm
	st.form.Wrapped = st.form.State && wraps(node, names)
	// The state of the world has no place for a ttl but the wrapping (TTL-1).
	st.form.TTL = slices.Contains(features, featureTTL) && (!st.form.State || st.form.Wrapped)
	st.mu.Lock()
	st.status.node, st.status.cluster = clip(node.GetId()), clip(node.GetCluster())
	st.mu.Unlock()
	st.log(slog.LevelDebug).Debug("stream opened")
}

// log gives the logger of what concerns the client. It is made for each line, of which there
// are few, and only if somebody wants to see that: kept, it would take more than most of
// what a stream at rest is made of.
func (st *stream) log(level slog.Level) *slog.Logger {
	all := st.server.log
	if !all.Enabled(st.grpc.Context(), level) {
		return all
	}
	return all.With("stream", st.id, "peer", st.peer.Addr, "node", st.status.node)
}

// client gives the stream's place in a store.
func (st *stream) client(s *cache.Store) *cache.Client {
	if c := st.place(s); c != nil {
		return c
	}
	c := s.Join(st.wake, st.form)
	st.order = append(st.order, c)
	return c
}

// place is the same, and nil where there is none.
func (st *stream) place(s *cache.Store) *cache.Client {
	for _, c := range st.order {
		if c.Store() == s {
			return c
		}
	}
	return nil
}

// typed gives what is known of a type, nil if the client did not name it yet.
func (st *stream) typed(url string) *typeState {
	for _, t := range st.types {
		if t.url == url {
			return t
		}
	}
	return nil
}

// close gives the stream's places back.
func (st *stream) close() {
	if st.alarm != nil {
		st.alarm.Stop()
	}
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
