package relay

import (
	"context"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
)

// While memory is short clients of new scopes are refused, and what nobody uses goes. While it is very
// short all new clients are. Those who are served go on being served.
func TestMemory_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64
		var cfg *config.Config
		b := runBubbled(t, func(c *config.Config) {
			cfg = c
			c.Server.MaxConnectionAge = 0
			c.Aggregation.Otherwise = config.Isolate
			c.Aggregation.Linger = config.Duration(time.Hour)
		}, func(o *Options) { o.Memory, o.used = 1000, used.Load })
		conn := b.dial()
		scopes := func() int { return len(b.relay.hub.all()) }
		settle := func() { pass(2 * time.Second) }
		refused := func(ended chan error, hints int) {
			t.Helper()
			settle()
			select {
			case err := <-ended:
				s := status.Convert(err)
				if s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "short of memory") || len(s.Details()) != hints {
					t.Fatalf("LIM-3: the stream ended: %v", err)
				}
				for _, d := range s.Details() {
					if hint, ok := d.(*errdetails.RetryInfo); !ok || hint.GetRetryDelay().AsDuration() <= 0 {
						t.Errorf("LIM-3: %v is no hint when to come back", d)
					}
				}
			default:
				t.Error("LIM-3: the stream goes on")
			}
		}
		served := func(ended chan error) {
			t.Helper()
			settle()
			select {
			case err := <-ended:
				t.Errorf("LIM-3: the stream ended: %v", err)
			default:
			}
		}
		stays := b.subscriber(conn, "stays")
		gone := b.dial()
		b.subscriber(gone, "goes")
		pass(lingerPart * 10 * time.Minute) // a scope waits for a part of its life only
		_ = gone.Close()
		settle()
		if scopes() != 2 {
			t.Fatalf("%d scopes, want one with a client and one that lingers", scopes())
		}

		used.Store(850)
		settle()
		if scopes() != 1 {
			t.Errorf("LIM-3: %d scopes while memory is short, want the one with a client", scopes())
		}
		refused(b.subscriber(conn, "new"), 0)
		again := b.subscriber(conn, "stays")
		served(again)

		used.Store(950)
		settle()
		refused(b.subscriber(conn, "stays"), 1)
		poll := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) },
		}}
		code := func() int {
			response, err := poll.Post("http://relay/v3/discovery:clusters", "application/json", strings.NewReader(`{"node":{"id":"stays"}}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			if response.StatusCode == http.StatusServiceUnavailable && response.Header.Get("Retry-After") == "" {
				t.Error("LIM-3: a refused poll is not told when to come back")
			}
			return response.StatusCode
		}
		if got := code(); got != http.StatusServiceUnavailable {
			t.Errorf("LIM-3: a poll is answered with %d", got)
		}
		next := *cfg
		next.Access.Verify = []config.VerifyRule{{Name: "all", Require: `node.id != ""`}} // another plan: streams open their routes anew
		if err := b.relay.Reload(&next); err != nil {
			t.Fatal(err)
		}
		served(stays)
		served(again)

		used.Store(100)
		settle()
		served(b.subscriber(conn, "new"))
		if got := code(); got != http.StatusOK {
			t.Errorf("LIM-3: a poll is answered with %d when there is memory again", got)
		}
	})
}

// The names of clients may take half of the memory while it is short, unless the configuration says otherwise.
func TestNamesWhileShort_LIM3(t *testing.T) {
	for _, tc := range []struct {
		configured config.Memory
		memory     int64
		want       int
	}{
		{config.AutoMemory, 1 << 30, 1 << 29},
		{config.AutoMemory, 0, 0},
		{0, 1 << 30, 0},
		{100 << 20, 1 << 30, 0}, // which is in force at any time
	} {
		if got := namesWhileShort(tc.configured, tc.memory); got != tc.want {
			t.Errorf("LIM-3: %s with %d bytes of memory gives %d, want %d", tc.configured, tc.memory, got, tc.want)
		}
	}
}
