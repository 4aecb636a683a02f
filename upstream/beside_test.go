package upstream

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A client that invents types takes the stream that others use from nobody: not where the server ends streams for
// them, and not where it is silent (LIM-2). At most so many are tried at a time, beside.
func TestInventedTypes_LIM2(t *testing.T) {
	for _, kind := range []string{"ends the stream", "is silent", "answers"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const rounds = 120
				n := newNetwork(t)
				srv := n.picky("a")
				for i := range rounds * 5 {
					switch kind {
					case "ends the stream":
						srv.bad[invented(i)] = status.Error(codes.Unknown, "what is that")
					case "is silent":
						srv.silent[invented(i)] = true
					}
				}
				wanted := []wire.Subscription{sub(clusters, "*"), sub(endpoints, "e")}
				store := newStore(wanted...)
				s := run(t, newUpstream(t, n.config("a")), store, nil)
				<-time.After(time.Second)
				for i := range rounds {
					var news, gone []wire.Subscription
					for k := range 5 {
						news, gone = append(news, sub(invented(5*i+k), "x")), append(gone, unsub(invented(5*i+k), "x"))
					}
					store.want(0, slices.Concat(wanted, news), news...)
					<-time.After(time.Second)
					store.want(0, wanted, gone...)
					<-time.After(time.Second)
					synctest.Wait()
					s.events <- func() {
						if got := len(s.client().quarantine.besides.trials); got > mostBeside {
							t.Errorf("%d types are tried at a time", got)
						}
					}
				}
				if got := len(srv.requests(clusters)); got > 2 { // one asks whether the server takes a stream beside
					t.Errorf("%d streams with what others want, want 1", got)
				}
				connected(t, s)
				<-time.After(2 * maxTrialDelay)
				synctest.Wait()
				s.events <- func() {
					if q := &s.client().quarantine; len(q.suspects) > 0 || len(q.besides.trials) > 0 {
						t.Errorf("%d suspects and %d trials are left", len(q.suspects), len(q.besides.trials))
					}
				}
				synctest.Wait()
			})
		})
	}
}

// What an honest client asks for is tried and taken up while another one invents types, if not at once.
func TestHonestTypeAmongInvented_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a")
		wanted := []wire.Subscription{sub(clusters, "*")}
		for i := range 2 * mostBeside {
			srv.bad[invented(i)] = status.Error(codes.Unknown, "what is that")
			wanted = append(wanted, sub(invented(i), "x"))
		}
		store := newStore(wanted[0])
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(time.Second)
		store.want(0, wanted, wanted[1:]...)
		<-time.After(time.Second)
		store.want(0, append(wanted, sub(other, "x")), sub(other, "x"))
		<-time.After(3 * stableAfter)
		if !appliedTypes(store)[other] {
			t.Error("no response for the type that is served")
		}
		if got := len(srv.requests(clusters)); got > 2 {
			t.Errorf("%d streams with what others want, want 1", got)
		}
		connected(t, s)
	})
}

// ends has the server end a stream, unless it is over.
func ends(ss *serverStream, code codes.Code) {
	select {
	case ss.end <- status.Error(code, "as the test says"):
	case <-ss.Context().Done():
	}
}

// lonely is a server that takes one stream of a node: it refuses the second, or ends the first one for it. It ends
// streams for a bad type, too.
func lonely(t *testing.T, srv *server, endsFirst bool, streams func()) {
	t.Helper()
	done := make(chan struct{})
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		var first *serverStream
		for {
			select {
			case <-done:
				return
			case ss := <-srv.streams:
				if first != nil && first.Context().Err() == nil {
					if !endsFirst {
						ends(ss, codes.AlreadyExists)
						continue
					}
					ends(first, codes.Aborted)
				}
				first = ss
				go func() {
					for nonce := 1; ; nonce++ {
						req, err := ss.Recv()
						if err != nil {
							return
						}
						switch {
						case req.GetResponseNonce() != "":
						case req.GetTypeUrl() == unserved:
							ends(ss, codes.Unknown)
							return
						default:
							if req.GetTypeUrl() == clusters {
								streams()
							}
							_ = ss.Send(&discoveryv3.DeltaDiscoveryResponse{
								TypeUrl: req.GetTypeUrl(), Nonce: fmt.Sprint(nonce), Resources: []*discoveryv3.Resource{{Name: "c", Version: "1"}},
							})
						}
					}
				}()
			}
		}
	}()
	t.Cleanup(func() { close(done); <-gone })
}

// A server that takes one stream of a node has suspects tried on that, at most once a minute (LIM-2).
func TestSuspectsOfALonelyServer_LIM2(t *testing.T) {
	for name, endsFirst := range map[string]bool{"it refuses the second": false, "it ends the first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a", func(s *server) { s.deaf = true })
				var mu sync.Mutex
				var began []time.Time
				lonely(t, srv, endsFirst, func() {
					mu.Lock()
					defer mu.Unlock()
					began = append(began, time.Now())
				})
				store := newStore(sub(clusters, "*"))
				cfg := n.config("a")
				cfg.Keepalive.Response = 8 * time.Second
				s := run(t, newUpstream(t, cfg), store, nil)
				<-time.After(time.Second)
				all := []wire.Subscription{sub(clusters, "*"), sub(unserved, "x"), sub(other, "y")}
				store.want(0, all, all[1:]...)
				<-time.After(10 * time.Minute)
				mu.Lock()
				known := slices.IndexFunc(began, func(at time.Time) bool { return at.Sub(began[0]) > time.Minute })
				if got := len(began[known:]); got > 10 {
					t.Errorf("%d streams in nine minutes, want one a minute", got)
				}
				mu.Unlock()
				if !appliedTypes(store)[other] {
					t.Error("the type that is served was not subscribed to")
				}
				quarantined(t, s, unserved)
			})
		})
	}
}
