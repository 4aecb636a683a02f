package downstream

import (
	"context"
	"crypto/tls"
	"hash/maphash"
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/downstream/identity"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// stream is one client's stream.
type stream struct {
	// immutable
	shared  *shared
	variant *variant

	// of any goroutine
	link     link
	standing standing
	owner    ownership
	bell     bell

	// of the owner
	routing    routing
	departure  *time.Timer          // ends the stream, since its names moved, or it has no request; nil: neither
	subscriber *delivery.Subscriber // nil before the first request
	types      types
	nonces     nonces
	identified identified
	unread     unread
	alarm      alarm
	pace       retry.Pace // of requests that are not only answers; of the handler
	sender     *sender    // the owner; nil: the handler
	calm       bool       // the last delivery left nothing that an acknowledgement would release
	nodeless   *nodeless  // of the handler; nil: no request waits for a node
	joining    Turn       // of a stream whose first request is carried out; nil: none
}

func newStream(s *shared, g grpc.ServerStream, v *variant) *stream {
	st := &stream{
		shared:   s,
		variant:  v,
		link:     link{grpc: g},
		standing: standing{id: s.lastID.Add(1), peer: peerOf(g.Context()), since: time.Now()},
		nonces:   nonces{seed: maphash.MakeSeed()},
		// Read before the routes are opened: the stream looks at a plan that comes in between.
		routing: routing{plan: s.plans.number.Load()},
	}
	st.types.acks = st.types.acksOf
	return st
}

// log returns the logger for lines about the client. It is made for each line, and only if the
// level is enabled: lines are few, and a kept logger would be most of an idle stream's memory.
func (st *stream) log(level slog.Level) *slog.Logger {
	all := st.shared.log
	if !all.Enabled(st.link.grpc.Context(), level) {
		return all
	}
	return all.With("stream", st.standing.id, "peer", st.standing.peer.Addr, "node", st.standing.node)
}

// ring notes that there may be something to send. It may be called from any goroutine.
func (st *stream) ring() {
	st.bell.rung.Store(true)
	if !st.bell.queued.Swap(true) {
		st.shared.senders.push(st)
	}
}

// yield gives up the ownership. A ring in the meantime found the stream owned. It is deferred: if the
// owner panicked, the stream ends before it has another owner.
func (st *stream) yield() {
	if st.shared.safety.panics != nil {
		if v := recover(); v != nil { //nolint:revive // because yield itself is deferred
			_ = st.broke(v) // the handler returns it
		}
	}
	st.owner.give()
	if st.bell.rung.Load() {
		st.ring()
	}
}

// servedBy reports whether a stream is served: see [Serving].
func (st *stream) servedBy(long time.Duration) bool {
	st.standing.mu.Lock()
	defer st.standing.mu.Unlock()
	for _, t := range st.types.list {
		if t.status.Responses > 0 || t.status.Subscriptions > 0 && time.Since(st.standing.since) > long {
			return true
		}
	}
	return false
}

// joined notes that the client has joined. The owner calls it.
func (st *stream) joined() {
	done(st.joining)
	st.joining = nil
}

// admit returns the state of a type. first reports whether the client names it for the first time.
func (st *stream) admit(url string) (t *typeState, first bool, err error) {
	if t := st.types.of(url); t != nil {
		return t, false, nil
	}
	if len(st.types.list) == maxTypes {
		st.shared.observer.Limited(LimitTypes)
		return nil, false, status.Errorf(codes.ResourceExhausted, "more than %d types on one stream", maxTypes)
	}
	t = &typeState{url: url, full: st.variant.form == stateForm && st.shared.config.FullState[url], unknown: !xds.HasService(url)}
	st.standing.edit(func() { st.types.list = append(st.types.list, t) })
	return t, true, nil
}

// peerOf returns the address, TLS identity and metadata of a stream's client.
func peerOf(ctx context.Context) keyer.Peer {
	var id keyer.Peer
	if p, ok := peer.FromContext(ctx); ok {
		id = identify(p.Addr.String(), stateOf(p.AuthInfo), identity.CallerOf(ctx))
	}
	id.Metadata = func(name string) []string { return metadata.ValueFromIncomingContext(ctx, name) }
	return id
}

// stateOf returns the state of a TLS connection; nil for any other.
func stateOf(info credentials.AuthInfo) *tls.ConnectionState {
	switch info := info.(type) {
	case *identity.Client:
		if info.TLS != nil {
			return &info.TLS.State
		}
	case *identity.Conn:
		return &info.State
	case credentials.TLSInfo:
		return &info.State
	}
	return nil
}

// identify returns a peer with the identity of its certificate, if that was verified, and what else
// its connection and its token say.
func identify(addr string, state *tls.ConnectionState, by identity.Caller) keyer.Peer {
	var id keyer.Peer
	if state != nil && len(state.VerifiedChains) > 0 {
		id = keyer.PeerFromCertificate(state.PeerCertificates[0])
	}
	if by.Client != nil {
		id.User, id.Listener = by.Client.User, by.Client.Listener.Name
	}
	if by.Token != nil {
		id.Token = &by.Token.Token
	}
	id.Addr = addr
	return id
}
