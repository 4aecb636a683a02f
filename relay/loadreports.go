package relay

import (
	"context"
	"errors"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"github.com/xdsrelay/xdsrelay/relay/loadreport"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// Load reports are about clusters. So a client's reports go where the rules send it for all
// clusters (LRS-1).
const clusterURL = xds.ClusterType

// reportGrace is how long the last load reports may take when the relay stops.
const reportGrace = 3 * time.Second

var errReportsOff = status.Error(codes.Unimplemented, "load reports are turned off for this client's upstream (load_reports: off)")

// reporterNode decodes the node of a client that reports, unless it is too large (LIM-1); nil for none.
func (r *Relay) reporterNode(_ context.Context, encoded []byte) (*corev3.Node, error) {
	if len(encoded) == 0 {
		return nil, nil //nolint:nilnil // as of a request without one
	}
	if most := int(r.now.Load().config.Limits.NodeBytes); len(encoded) > most {
		r.metrics.Downstream().Limited(downstream.LimitNode)
		return nil, status.Errorf(codes.ResourceExhausted, "the node has %d bytes, at most %d are served", len(encoded), most)
	}
	node := new(corev3.Node)
	if err := proto.Unmarshal(encoded, node); err != nil {
		return nil, status.Errorf(codes.Internal, "the node cannot be decoded: %v", err)
	}
	return node, nil
}

// Find implements loadreport.Finder.
func (r *router) Find(ctx context.Context, node *corev3.Node) (loadreport.Place, error) {
	peer := downstream.PeerOf(ctx)
	to, err := r.open(node, &peer)
	if err != nil {
		return nil, err
	}
	s, err := to.reports()
	if err != nil {
		to.Close()
		return nil, err
	}
	return &reporter{router: r, session: s, routes: to}, nil
}

// reports finds the session that a client's load reports go to. The error is a status.
func (r *routes) reports() (*session, error) {
	d, plane, _, err := r.judge(clusterURL, cache.Wildcard)
	if status.Code(err) == codes.FailedPrecondition {
		return nil, status.Error(codes.Unimplemented, "load reports: "+status.Convert(err).Message())
	}
	if err != nil {
		return nil, downstream.ScopeError(err)
	}
	p := r.plan.planes[plane]
	if r.router.hub.configOf(p).LoadReports == config.LoadReportsOff {
		p.loads.Refused(loadreport.RefusedOff)
		return nil, errReportsOff
	}
	s, _, err := r.enter(plane, &d)
	return s, err
}

// reporter is the place of a client that reports.
type reporter struct {
	router  *router
	session *session

	mu     sync.Mutex // guards what follows
	routes *routes
	closed bool
}

// Scope implements loadreport.Place.
func (r *reporter) Scope() *loadreport.Scope { return r.session.loads }

// Allows implements loadreport.Place (ACC-2).
func (r *reporter) Allows(cluster string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return downstream.Unwatched(r.routes.Access()).Subscribes(clusterURL, cluster) == nil
}

// Check implements loadreport.Place. A client whose reports go where they did keeps to the new
// plan.
func (r *reporter) Check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.router.now.Load() == r.routes.plan {
		return nil
	}
	to, err := r.router.open(r.routes.node, r.routes.peer)
	if err != nil {
		return err
	}
	s, err := to.reports()
	switch {
	case err != nil:
	case s != r.session:
		err = loadreport.ErrMoved
	case r.routes.Access().Differs(to.Access(), clusterURL):
		err = loadreport.ErrNarrowed
	}
	if err != nil {
		to.Close()
		return err
	}
	r.routes.Close()
	r.routes = to
	return nil
}

// Close implements loadreport.Place.
func (r *reporter) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.routes.Close()
}

// configOf is what a plane is configured as now.
func (h *hub) configOf(p *plane) config.Upstream {
	h.mu.Lock()
	defer h.mu.Unlock()
	return p.config
}

// loadsOf makes the scope for the load reports of a session; nil for what the relay resolves by
// itself.
func (h *hub) loadsOf(s *session, p *plane) *loadreport.Scope {
	if p.gate == nil {
		return nil
	}
	log := h.log.With("upstream", s.key.plane, "scope", s.key.scope)
	return h.loads.NewScope(&loadSource{h, s}, p.gate, p.loads, log)
}

// loadSource opens streams of load reports for a session: where its feed goes at the time.
type loadSource struct {
	hub     *hub
	session *session
}

// Open implements loadreport.Source.
func (l *loadSource) Open(ctx context.Context) (loadreport.Stream, error) {
	f, ok := l.session.client.current().(*upstream.Session)
	if !ok {
		return nil, loadreport.ErrUnserved
	}
	stream, err := f.Beside(ctx, upstream.LoadReporting)
	switch {
	case errors.Is(err, upstream.ErrNoStreams):
		return nil, loadreport.ErrUnserved
	case err != nil:
		return nil, err
	}
	return &loadStream{stream, l.session.client, f}, nil
}

// Hold implements loadreport.Source: the session has one more user.
func (l *loadSource) Hold() (release func()) {
	l.hub.mu.Lock()
	defer l.hub.mu.Unlock()
	_ = l.hub.seat(claim{kind: moved}, l.session) // who is served already is not refused
	l.session.users++
	return func() { l.hub.release(l.session) }
}

// loadStream is a stream that was opened by one of a session's feeds.
type loadStream struct {
	*upstream.SideStream

	supply *supply
	feed   feed
}

// sendTimeout is how long a server may leave a report unread that does not fit into the
// connection's window.
const sendTimeout = 30 * time.Second

// Send implements loadreport.Stream. A server that does not read ends it.
func (l *loadStream) Send(m proto.Message) error {
	stuck := time.AfterFunc(sendTimeout, l.Cancel)
	defer stuck.Stop()
	return l.SideStream.Send(m)
}

// Receive implements loadreport.Stream.
func (l *loadStream) Receive(m proto.Message) error { return l.SideStream.Receive(m) }

// Current implements loadreport.Stream: a reload may have changed how the control plane is
// reached, or what it is shown, and the session may have moved to another replica.
func (l *loadStream) Current() bool { return l.supply.current() == l.feed && l.SideStream.Current() }
