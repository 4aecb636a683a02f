package upstream

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/testkit/loads"
)

// reportsTo has a host take load reports.
func (n *network) reportsTo(host string, options ...grpc.ServerOption) {
	n.t.Helper()
	lis := bufconn.Listen(1 << 20)
	n.mu.Lock()
	n.hosts[host] = lis
	n.mu.Unlock()
	s := grpc.NewServer(options...)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = s.Serve(lis) // ends with Stop
	}()
	n.t.Cleanup(func() {
		s.Stop()
		<-done
	})
}

// reporting makes a session that does not run: reports need none that does.
func reporting(t *testing.T, u *Upstream, metadata map[string][]string) *Session {
	t.Helper()
	s, err := u.NewSession(SessionConfig{Node: &corev3.Node{Id: "relay"}, Scope: "shared", Store: newStore(), Metadata: metadata})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A stream of load reports goes to the first endpoint that takes it, with the session's
// metadata, and its connection is given back. They do not count against the other endpoints.
func TestLoadReports_LRS1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, server := newNetwork(t), loads.New(time.Minute)
		n.blackHole("a")
		n.reportsTo("c", server.Option())
		u := newUpstream(t, n.config("a", "b", "c"))
		s := reporting(t, u, map[string][]string{"authorization": {"Bearer s3cret-token"}})
		l, err := s.Beside(t.Context(), LoadReporting)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Send(&loadv3.LoadStatsRequest{Node: l.Node()}); err != nil {
			t.Fatal(err)
		}
		var answer loadv3.LoadStatsResponse
		if err := l.Receive(&answer); err != nil || !answer.GetSendAllClusters() {
			t.Fatalf("%v, %v", &answer, err)
		}
		nodes, tokens := server.Presented()
		if nodes[0].GetId() != "relay" || len(tokens) != 1 || tokens[0] != "Bearer s3cret-token" || l.MaxRequest() != DefaultMaxRequestSize {
			t.Errorf("presented %v, %d tokens, %d bytes", nodes, len(tokens), l.MaxRequest())
		}
		if u.replicas.failedWithin(u.replicas.groups[0].endpoints[0].replicas[0], time.Hour) || u.entrance.outages.down() {
			t.Error("load reports count against an endpoint")
		}
		l.CloseSend()
		if err := l.Receive(&answer); err == nil {
			t.Error("the stream goes on")
		}
		l.Close()
		l.Close()
		if p := u.transport.(*pool); len(p.conns) != 0 {
			t.Error("the connection is still there")
		}
	})
}

// The stream ends when the upstream is closed, which waits for that.
func TestLoadReports_LRS1_Closed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.reportsTo("a", loads.New(time.Minute).Option())
		u := newUpstream(t, n.config("a"))
		s := reporting(t, u, nil)
		l, err := s.Beside(t.Context(), LoadReporting)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() {
			var answer loadv3.LoadStatsResponse
			err := l.Receive(&answer)
			l.Close()
			ended <- err
		}()
		u.Close()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("ended with %v", err)
		}
		if _, err := s.Beside(t.Context(), LoadReporting); !errors.Is(err, ErrClosed) {
			t.Errorf("opened after the end: %v", err)
		}
	})
}

// What a server says of a token is not passed on, and nothing is left of an attempt in vain.
func TestLoadReports_LRS2_Refused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.reportsTo("a", grpc.UnknownServiceHandler(func(any, grpc.ServerStream) error {
			return status.Error(codes.Unimplemented, "not for s3cret-token")
		}))
		u := newUpstream(t, n.config("a"))
		l, err := reporting(t, u, map[string][]string{"authorization": {"Bearer s3cret-token"}}).Beside(t.Context(), LoadReporting)
		if err != nil {
			t.Fatal(err)
		}
		var answer loadv3.LoadStatsResponse
		if err := l.Receive(&answer); status.Code(err) != codes.Unimplemented || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("got %v", err)
		}
		l.Close()
		away := newUpstream(t, newNetwork(t).config("gone", "b"))
		if _, err := reporting(t, away, nil).Beside(t.Context(), LoadReporting); status.Code(err) != codes.Unavailable {
			t.Errorf("nobody there: %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := reporting(t, away, nil).Beside(ctx, LoadReporting); err == nil {
			t.Error("opened although nobody waits")
		}
	})
}

// Who polls, or reads files, has no such stream.
func TestLoadReports_LRS2_NoStreams(t *testing.T) {
	u := newUpstream(t, Config{Name: "cp", APIType: REST, Endpoints: [][]string{{"127.0.0.1:1"}}})
	f, err := NewFiles(FilesConfig{Name: "files", Path: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	files, err := f.NewSession(SessionConfig{Store: newStore(), Scope: "shared"})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Session{reporting(t, u, nil), files} {
		if _, err := s.Beside(t.Context(), LoadReporting); !errors.Is(err, ErrNoStreams) {
			t.Errorf("got %v", err)
		}
	}
}

// The stream goes where the session is: when that moves, or comes back, it is not current any
// more. A session that is at no replica makes no stream worse than another.
func TestLoadReports_LRS1_Current(t *testing.T) {
	r := newReport("cp", "a", slog.New(slog.DiscardHandler), SessionConfig{})
	l := &SideStream{report: r, at: "a"}
	for _, step := range []struct {
		state    State
		endpoint string
		want     bool
	}{
		{StateConnected, "a", true},
		{StateConnecting, "b", true},
		{StateConnected, "b", false},
		{StateConnected, "a", true},
	} {
		r.note(func(s *Status) { s.State, s.Endpoint = step.state, step.endpoint })
		if got := l.Current(); got != step.want {
			t.Errorf("%s at %s: current %t", step.state, step.endpoint, got)
		}
	}
}
