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
	"google.golang.org/grpc/metadata"
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

	turn   turn
	rung   atomic.Bool // there may be something to send: cleared by who looks
	queued atomic.Bool // by the senders

	// owned by whose turn it is
	routes     Routes
	places     *cache.Subscriber       // in stores; nil before the first request
	acks       func(string) cache.Acks // acksOf, made once
	now        time.Time               // of the pass
	types      []*typeState            // a few; changed under mu, for the admin port
	plan       uint64                  // Server.plans when it last compared where its names live
	departure  *time.Timer             // ends the stream, whose names moved; nil: they did not
	nonce      uint64                  // the last response's number, over all types
	parent     uint64                  // of the last response that adds clusters or listeners (WARM-1)
	answerable int                     // how many more refused names of a request are answered to (ABS-4)
	calm       bool                    // nothing was left by the last pass that an acknowledgement could let go
	last       uint32                  // bytes of the last response
	sender     *sender                 // whose turn it is; nil: the reader
	alarm      *time.Timer             // rings; nil: none is set
	alarmAt    time.Time               // when; zero: it has gone off

	identified identified // what the client was told of who serves it (STR-10)

	// Bytes of responses: all, those that the client has read for sure, and those that it has
	// if it acknowledges the one with markNonce.
	written, read, mark uint64
	markNonce           uint64

	mu      sync.Mutex // guards what follows, which the admin port reads, and the end
	status  standing
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
	st.acks = st.acksOf
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
	st.reroute()
	if err := st.request(r); err != nil {
		return err
	}
	if st.calm && !st.rung.Load() {
		return nil // most requests are acknowledgements, after which nothing is due
	}
	if err := st.pass(); err != nil {
		return st.end(err) // before somebody else's turn, who might have something to send
	}
	return nil
}

// featureTTL is what a client announces that can do resource ttl (TTL-1).
const featureTTL = "xds.config.supports-resource-ttl"

// envoyAgent is the user_agent_name of Envoy, which announces no ttl and honours it.
const envoyAgent = "envoy"

// begin takes the node from the stream's first request (STR-1). names are what that
// subscribes to in the state of the world.
func (st *stream) begin(node *corev3.Node, names []string) {
	st.routes = st.server.config.Router.Open(node, &st.peer)
	features := node.GetClientFeatures()
	form := cache.Form{State: st.variant.form == stateForm}
	form.Wrapped = form.State && wraps(node, names)
	// The state of the world has no place for a ttl but the wrapping. Envoy honours it
	// without saying so, but has no use for a list of heartbeats (TTL-1).
	if form.State {
		form.TTL = form.Wrapped && slices.Contains(features, featureTTL)
	} else {
		form.TTL = slices.Contains(features, featureTTL) || node.GetUserAgentName() == envoyAgent
	}
	st.places = cache.NewSubscriber(st.ring, form)
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

// stores are the stream's places in stores.
func (st *stream) stores() []*cache.Client {
	if st.places == nil {
		return nil
	}
	return st.places.Places()
}

// bare reports whether the client is of the state-of-the-world form and does not know
// wrapped resources.
func (st *stream) bare() bool {
	form := st.places.Form()
	return form.State && !form.Wrapped
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
	if st.departure != nil {
		st.departure.Stop()
	}
	for _, t := range st.types {
		st.server.observer.Subscribed(t.url, -t.subscriptions)
		st.rejects(t, false)
	}
	if st.places != nil {
		st.places.Leave()
	}
	if st.routes != nil {
		st.routes.Close()
	}
}

// peerOf is the client's address, TLS identity and metadata.
func peerOf(ctx context.Context) keyer.Peer {
	var id keyer.Peer
	if p, ok := peer.FromContext(ctx); ok {
		info, _ := p.AuthInfo.(credentials.TLSInfo)
		id = identify(p.Addr.String(), &info.State)
	}
	id.Metadata = func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) }
	return id
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
