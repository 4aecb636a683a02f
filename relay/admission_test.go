package relay

import (
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/load"
)

// occupy has so many clients join that do not come to an end that nobody else has a turn.
func (b *bubbled) occupy() (end func()) {
	b.Helper()
	var all []downstream.Turn
	for {
		turn, err := b.relay.admission.Join(b.Context(), load.From{})
		if err != nil {
			break
		}
		all = append(all, turn)
	}
	return func() {
		for _, turn := range all {
			turn.Done()
		}
	}
}

// A client that cannot join within limits.join_wait is told when to come again, each another time. Those that are
// served go on being served, and a client that joins then has everything at once.
func TestAdmission_LIM1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cfg *config.Config
		b := runBubbled(t, func(c *config.Config) {
			cfg = c
			c.Server.MaxConnectionAge, c.Server.RESTWait = 0, 0
			c.Limits.JoinWait = config.Duration(800 * time.Millisecond)
		})
		conn := b.dial()
		stays := b.subscriber(conn, "stays")
		silent, err := discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pass(time.Second)
		if s := b.relay.admission.Status(); s.Working != 0 {
			t.Fatalf("LIM-1: a stream at rest, or without a request, has a place: %+v", s)
		}

		end := b.occupy()
		var refused []chan error
		for range 10 {
			refused = append(refused, b.subscriber(conn, "new"))
		}
		pass(500 * time.Millisecond)
		if s := b.relay.admission.Status(); s.Waiting[load.Join] != len(refused) {
			t.Errorf("LIM-1: %+v, and %d streams wait", s, len(refused))
		}
		pass(500 * time.Millisecond)
		again := make(map[time.Duration]bool)
		for _, ended := range refused {
			select {
			case err := <-ended:
				s := status.Convert(err)
				if s.Code() != codes.Unavailable || !strings.Contains(s.Message(), "limits.join_wait") || len(s.Details()) != 1 {
					t.Fatalf("LIM-1: the stream ended: %v", err)
				}
				hint, ok := s.Details()[0].(*errdetails.RetryInfo)
				after := hint.GetRetryDelay().AsDuration()
				if !ok || after < retryLeast || after > retryLeast+retrySpread {
					t.Errorf("LIM-1: the client is to come again after %v", after)
				}
				again[after] = true
			default:
				t.Error("LIM-1: the stream waits")
			}
		}
		if len(again) < len(refused)/2 {
			t.Errorf("LIM-1: %d clients come again at %d times", len(refused), len(again))
		}
		poll := &http.Client{Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return b.rest.DialContext(ctx) },
		}}
		answer := func(version string) (code int, retryAfter string) {
			response, err := poll.Post("http://relay/v3/discovery:clusters", "application/json", strings.NewReader(`{"node":{"id":"stays"},"version_info":"`+version+`"}`))
			if err != nil {
				t.Fatal(err)
			}
			_ = response.Body.Close()
			return response.StatusCode, response.Header.Get("Retry-After")
		}
		for _, version := range []string{"", "7"} { // whoever says that it has joined before need not have
			code, retry := answer(version)
			after, err := strconv.Atoi(retry)
			if code != http.StatusServiceUnavailable || err != nil || after < 1 || after > 5 {
				t.Errorf("LIM-1: a poll with version %q is answered with %d, to come again after %d s: %v", version, code, after, err)
			}
		}
		select {
		case err := <-stays:
			t.Errorf("LIM-1: the stream that was served ended: %v", err)
		default:
		}

		waits := b.subscriber(conn, "new")
		pass(500 * time.Millisecond)
		end()
		pass(time.Second)
		if code, _ := answer(""); code != http.StatusOK {
			t.Errorf("LIM-1: a first poll is answered with %d when there is room", code)
		}
		if code, _ := answer("7"); code != http.StatusOK && code != http.StatusNotModified {
			t.Errorf("LIM-1: a poll of a client that has joined is answered with %d when there is room", code)
		}
		select {
		case err := <-waits:
			t.Errorf("LIM-1: a stream that had its turn in time ended: %v", err)
		default:
		}

		end = b.occupy()
		next := *cfg
		next.Limits.Admission = config.AdmissionOff
		if err := b.relay.Reload(&next); err != nil {
			t.Fatal(err)
		}
		off := b.subscriber(conn, "new")
		pass(2 * time.Second)
		select {
		case err := <-off:
			t.Errorf("LIM-1: a stream ended while admission is off: %v", err)
		default:
		}
		end()
		_ = silent.CloseSend()
		pass(time.Second)
		if s := b.relay.admission.Status(); s.Working != 0 {
			t.Errorf("LIM-1: at rest: %+v", s)
		}
	})
}

// Streams that wait for their turn are told to go when the relay drains.
func TestAdmissionDrains_OPS4(t *testing.T) {
	var ended chan error
	synctest.Test(t, func(t *testing.T) {
		b := runBubbled(t, func(c *config.Config) { c.Server.Drain = config.Duration(time.Second) })
		conn := b.dial()
		end := b.occupy()
		defer end()
		ended = b.subscriber(conn, "waits")
		pass(10 * time.Millisecond)
		b.relay.admission.Close()
		pass(10 * time.Millisecond)
		select {
		case err := <-ended:
			if status.Code(err) != codes.Unavailable {
				t.Errorf("OPS-4: %v", err)
			}
		default:
			t.Error("OPS-4: the stream waits")
		}
	})
}
