package upstream

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
)

// loadReporting is the method of the load reporting service (LRS-1).
const loadReporting = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"

// ErrNoLoadReports says that a control plane of this kind takes no load reports: it is polled,
// or made of files.
var ErrNoLoadReports = errors.New("upstream: no load reports over REST or to files")

// LoadReports is a stream of load reports to the control plane of a session, beside its xDS
// streams: its end is no concern of theirs, nor of the endpoint's health. Send may
// be called by one goroutine and Receive by another, and the rest by any.
type LoadReports struct {
	client *grpcClient
	conn   *conn
	stream grpc.ClientStream
	cancel context.CancelFunc
	report *report
	at     string // the replica that the session was at
	once   sync.Once
	wg     sync.WaitGroup
}

// LoadReports opens a stream of load reports, at the replica that the session is at or else
// at the first other one that takes it. It ends with ctx, or when the upstream is closed. It
// may be called from any goroutine, and whether or not the session runs.
func (s *Session) LoadReports(ctx context.Context) (*LoadReports, error) {
	r, _ := s.source.(*remote)
	if r == nil {
		return nil, ErrNoLoadReports
	}
	c, ok := r.client.(*grpcClient)
	if !ok {
		return nil, ErrNoLoadReports
	}
	if err := s.roster.enter(); err != nil {
		return nil, err
	}
	err := ErrNoLoadReports
	for _, x := range r.reportTo(ctx) {
		var l *LoadReports
		if l, err = c.openLoadReports(ctx, x); err == nil {
			return l, nil
		}
		if ctx.Err() != nil || s.roster.closes() {
			break
		}
	}
	s.roster.leave()
	return nil, c.headers.conceal(err)
}

// reportTo returns the replicas in the order in which a stream of load reports tries them: the
// one that the session is at, then the others as the session prefers them, and those that were
// just found unreachable last.
func (r *remote) reportTo(ctx context.Context) []*replica {
	order := slices.Concat(r.up.replicas.byPriority(ctx, r.failback.key)...)
	at := r.report.Status().Endpoint
	rank := func(x *replica) int {
		switch {
		case x.name == at:
			return 0
		case !r.failback.knownBad(x):
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b *replica) int { return cmp.Compare(rank(a), rank(b)) })
	return order
}

// openLoadReports opens the stream at one replica. Connecting is bounded, not the life of the
// stream.
func (c *grpcClient) openLoadReports(ctx context.Context, x *replica) (*LoadReports, error) {
	ctx, err := c.headers.outgoing(ctx)
	if err != nil {
		return nil, err
	}
	conn, err := c.pool.acquire(x)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(c.cfg.ConnectTimeout, cancel)
	desc := &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}
	stream, err := conn.cc.NewStream(ctx, desc, loadReporting)
	if !timer.Stop() {
		err = errConnectTimeout
	}
	if err != nil {
		cancel()
		c.pool.release(conn)
		return nil, err
	}
	_ = stream.Context() // see stream.open
	l := &LoadReports{
		client: c, conn: conn, stream: stream, cancel: cancel, report: c.session.report, at: c.session.report.Status().Endpoint,
	}
	l.wg.Go(func() {
		select {
		case <-c.session.roster.closing:
			cancel()
		case <-ctx.Done():
		}
	})
	return l, nil
}

// sendTimeout is how long a server may leave a report unread that does not fit into the
// connection's window.
const sendTimeout = 30 * time.Second

// Send sends a report. An error says that it was not handed to the connection: the stream has
// ended, if only because the server does not read.
func (l *LoadReports) Send(m proto.Message) error {
	stuck := time.AfterFunc(sendTimeout, l.cancel)
	defer stuck.Stop()
	return l.stream.SendMsg(m)
}

// Current reports whether the session is still at the replica at which it was when the stream
// was opened. While it is at none the stream is as good as another.
func (l *LoadReports) Current() bool {
	now := l.report.Status()
	return now.State != StateConnected || now.Endpoint == l.at
}

// Receive takes the next response of the control plane. The error is why the stream ended.
func (l *LoadReports) Receive(m proto.Message) error {
	return l.client.headers.conceal(l.stream.RecvMsg(m))
}

// CloseSend says that nothing more will be sent.
func (l *LoadReports) CloseSend() {
	_ = l.stream.CloseSend() // it fails only where the stream is over, of which Receive tells
}

// Close ends the stream.
func (l *LoadReports) Close() {
	l.once.Do(func() {
		l.cancel()
		l.wg.Wait()
		l.client.pool.release(l.conn)
		l.client.session.roster.leave()
	})
}

// Node is what the session shows the control plane.
func (l *LoadReports) Node() *corev3.Node { return l.client.node }

// MaxRequest bounds a report, in bytes.
func (l *LoadReports) MaxRequest() int { return l.client.cfg.MaxRequestSize }
