package loadreport

import (
	"context"
	"errors"
	"io"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
)

// fakeSource is a control plane, as a scope sees it.
type fakeSource struct {
	mu      sync.Mutex
	failure error // of Open
	opened  []*fakeStream
	held    int
}

func (f *fakeSource) Hold() (release func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held++
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.held--
	}
}

func (f *fakeSource) Open(ctx context.Context) (Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failure != nil {
		f.opened = append(f.opened, nil)
		return nil, f.failure
	}
	ctx, cancel := context.WithCancelCause(ctx)
	s := &fakeStream{ctx: ctx, cancel: cancel, answers: make(chan *loadv3.LoadStatsResponse), current: true}
	f.opened = append(f.opened, s)
	return s, nil
}

func (f *fakeSource) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.failure = err
}

// streams are those that were opened; nil for attempts in vain.
func (f *fakeSource) streams() []*fakeStream {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.opened
}

// last is the last stream.
func (f *fakeSource) last() *fakeStream {
	all := f.streams()
	return all[len(all)-1]
}

// fakeStream is a stream to it. It ends with a status (end), or when everything was said.
type fakeStream struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	answers chan *loadv3.LoadStatsResponse

	mu      sync.Mutex
	sent    []*loadv3.LoadStatsRequest
	refuse  bool // Send fails
	current bool
}

var errBroken = errors.New("broken")

func (s *fakeStream) Send(m proto.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ctx.Err() != nil || s.refuse {
		return io.EOF
	}
	s.sent = append(s.sent, proto.CloneOf(m.(*loadv3.LoadStatsRequest)))
	return nil
}

func (s *fakeStream) Receive(m proto.Message) error {
	select {
	case r := <-s.answers:
		proto.Merge(m, r)
		return nil
	case <-s.ctx.Done():
		return context.Cause(s.ctx)
	}
}

func (s *fakeStream) CloseSend()       { s.cancel(io.EOF) }
func (s *fakeStream) Close()           { s.cancel(context.Canceled) }
func (*fakeStream) Node() *corev3.Node { return &corev3.Node{Id: "relay"} }
func (*fakeStream) MaxRequest() int    { return 1 << 20 }
func (s *fakeStream) end(err error)    { s.cancel(err) }
func (s *fakeStream) set(f func())     { s.mu.Lock(); defer s.mu.Unlock(); f() }
func (s *fakeStream) ended() bool      { return s.ctx.Err() != nil }
func (s *fakeStream) reports() []*loadv3.LoadStatsRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

func (s *fakeStream) Current() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}
