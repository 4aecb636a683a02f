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
)

// LoadReporting is the method of the load reporting service (LRS-1).
const LoadReporting = "/envoy.service.load_stats.v3.LoadReportingService/StreamLoadStats"

// ErrNoStreams says that a control plane of this kind has no streams: it is polled, or made of files.
var ErrNoStreams = errors.New("upstream: no streams over REST or to files")

// SideStream is a stream to the control plane of a session, beside the session's xDS streams: its end is
// no concern of theirs, nor of the endpoint's health. It carries load reports, or the messages of one
// client. Send may be called by one goroutine and Receive by another, and the rest by any.
type SideStream struct {
	client *grpcClient
	conn   *conn
	stream grpc.ClientStream
	cancel context.CancelFunc
	report *report
	at     string // the replica that the session was at
	once   sync.Once
	wg     sync.WaitGroup
}

// Beside opens a stream of a method, at the replica that the session is at or else at the first other
// one that takes it. It ends with ctx, or when the upstream is closed. It may be called from any
// goroutine, and whether or not the session runs.
func (s *Session) Beside(ctx context.Context, method string) (*SideStream, error) {
	r, _ := s.source.(*remote)
	if r == nil {
		return nil, ErrNoStreams
	}
	c, ok := r.client.(*grpcClient)
	if !ok {
		return nil, ErrNoStreams
	}
	if err := s.roster.enter(); err != nil {
		return nil, err
	}
	err := ErrNoStreams
	for _, x := range r.replicasBeside(ctx) {
		var l *SideStream
		if l, err = c.openBeside(ctx, x, method); err == nil {
			return l, nil
		}
		if ctx.Err() != nil || s.roster.closes() {
			break
		}
	}
	s.roster.leave()
	return nil, c.headers.conceal(err)
}

// replicasBeside returns the replicas in the order in which a stream beside tries them: the
// one that the session is at, then the others as the session prefers them, and those that were
// just found unreachable last.
func (r *remote) replicasBeside(ctx context.Context) []*replica {
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

// openBeside opens the stream at one replica. Connecting is bounded, not the life of the
// stream.
func (c *grpcClient) openBeside(ctx context.Context, x *replica, method string) (*SideStream, error) {
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
	stream, err := conn.cc.NewStream(ctx, desc, method)
	if !timer.Stop() {
		err = errConnectTimeout
	}
	if err != nil {
		cancel()
		c.pool.release(conn)
		return nil, err
	}
	_ = stream.Context() // see stream.open
	l := &SideStream{
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

// Send sends a message. It waits as long as the server does not read and the connection's window is
// full. An error says that the message was not handed to the connection: the stream has ended.
func (l *SideStream) Send(m any) error { return l.stream.SendMsg(m) }

// Current reports whether the session is still at the replica at which it was when the stream
// was opened. While it is at none the stream is as good as another.
func (l *SideStream) Current() bool {
	now := l.report.Status()
	return now.State != StateConnected || now.Endpoint == l.at
}

// Receive takes the next message of the control plane. The error is why the stream ended.
func (l *SideStream) Receive(m any) error {
	return l.client.headers.conceal(l.stream.RecvMsg(m))
}

// CloseSend says that nothing more will be sent.
func (l *SideStream) CloseSend() {
	_ = l.stream.CloseSend() // it fails only where the stream is over, of which Receive tells
}

// Closed reports whether the upstream ends, and the stream with it: a reload changed how it is reached.
func (l *SideStream) Closed() bool { return l.client.session.roster.closes() }

// Cancel ends the stream, and does not wait for that.
func (l *SideStream) Cancel() { l.cancel() }

// Close ends the stream.
func (l *SideStream) Close() {
	l.once.Do(func() {
		l.cancel()
		l.wg.Wait()
		l.client.pool.release(l.conn)
		l.client.session.roster.leave()
	})
}

// Node is what the session shows the control plane.
func (l *SideStream) Node() *corev3.Node { return l.client.node }

// MaxRequest bounds what the relay makes up for the control plane, in bytes.
func (l *SideStream) MaxRequest() int { return l.client.cfg.MaxRequestSize }
