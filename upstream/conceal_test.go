package upstream

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

func TestConceal_ACC6_OPS6(t *testing.T) {
	md := metadata.MD{"authorization": {"Bearer s3cret-token"}, "x": {"on"}}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{status.Error(codes.Unauthenticated, "token s3cret-token is on no list"), "token (hidden) is on no list"},
		{status.Error(codes.Unauthenticated, `no such credentials: "Bearer s3cret-token"`), `no such credentials: "(hidden)"`},
		{&restjson.StatusError{Code: http.StatusUnauthorized, Message: "s3cret-token?"}, "(hidden)?"},
		{status.Error(codes.Unavailable, "the Bearer of bad news is on holiday"), "the Bearer of bad news is on holiday"},
	} {
		got := conceal(tt.err, md)
		if !strings.HasSuffix(got.Error(), tt.want) || strings.Contains(got.Error(), "s3cret") || status.Code(got) != status.Code(tt.err) {
			t.Errorf("%v: %v, want %s", tt.err, got, tt.want)
		}
	}
	for _, err := range []error{io.EOF, errConnectTimeout, fmt.Errorf("x: %w", io.EOF)} {
		if got := conceal(err, md); !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// What a server says of a token is not shown with it where it refuses a type beside the streams.
func TestRefusedType_ACC6_OPS6_quotedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.picky("a").serveType(unserved, status.Error(codes.PermissionDenied, "not for s3cret-token"))
		cfg := n.config("a")
		cfg.Credentials.Metadata = map[string][]string{"authorization": {"Bearer s3cret-token"}}
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*"), sub(unserved, "x")), nil)
		<-time.After(time.Minute)
		if got := s.Status().Refused[unserved]; !strings.HasSuffix(got, "not for (hidden)") {
			t.Errorf("shown: %q", got)
		}
	})
}

// What a server says of a token is not shown with it.
func TestSession_ACC6_OPS6_quotedToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("a", func(s *server) {
			s.refuse = status.Error(codes.Unauthenticated, "unknown token s3cret-token")
		})
		u := newUpstream(t, n.config("a"))
		s, err := u.NewSession(SessionConfig{
			Node: &corev3.Node{Id: "relay"}, Scope: "shared", Store: newStore(sub(clusters, "*")),
			Metadata: map[string][]string{"authorization": {"Bearer s3cret-token"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- s.Run(t.Context()) }()
		t.Cleanup(func() { <-done })
		synctest.Wait()
		for _, err := range []*ConnectionError{s.Status().LastError, u.entrance.outages.Now().Err} {
			if err == nil || err.Reason != ReasonDenied || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("shown: %v", err)
			}
		}
	})
}
