package upstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"
)

// scoped runs a number of scopes of one upstream, each with a stream that was answered.
func scoped(t *testing.T, srv *server, u *Upstream, scopes int) (stores []*memStore, sessions []*running) {
	t.Helper()
	for range scopes {
		store := newStore(sub(clusters, "*"))
		stores, sessions = append(stores, store), append(sessions, run(t, u, store, nil))
		ss := srv.accept()
		ss.next()
		ss.respond(clusters, "1", "c")
		ss.answer()
	}
	synctest.Wait()
	return stores, sessions
}

// While a control plane with many scopes is gone one stream is tried at a time, at least
// every five seconds. When it is back the others follow one by one.
func TestUPS2_OneProbe(t *testing.T) {
	for name, gone := range map[string]func(n *network){
		"refused":    func(*network) {},
		"black hole": func(n *network) { n.blackHole("a") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const scopes = 60
				n := newNetwork(t)
				srv := n.serve("a")
				cfg := n.config("a")
				cfg.ConnectTimeout = 2 * time.Second
				u := newUpstream(t, cfg)
				_, sessions := scoped(t, srv, u, scopes)
				before := len(n.dialled("a"))
				srv.stop()
				gone(n)
				<-time.After(10 * time.Minute)
				synctest.Wait()
				dials := n.dialled("a")[before:]
				var gaps []time.Duration
				for i := range dials[1:] {
					gaps = append(gaps, dials[i+1].Sub(dials[i]))
				}
				if longest := slices.Max(gaps); longest > DefaultBackoffMax+cfg.ConnectTimeout {
					t.Errorf("nobody tried for %v", longest)
				}
				if got := len(dials); got > 400 {
					t.Errorf("%d attempts in ten minutes for %d scopes", got, scopes)
				}
				if name == "black hole" && slices.Min(gaps) < cfg.ConnectTimeout {
					t.Errorf("two attempts at once: %v", slices.Min(gaps))
				}

				srv = n.serve("a")
				var opened []time.Time
				for range scopes {
					ss := srv.accept()
					opened = append(opened, ss.opened)
					if len(opened) == 1 {
						<-time.After(probeStands / 2)
						synctest.Wait()
						if len(srv.streams) > 0 {
							t.Error("others came before the probe was answered")
						}
						ss.respond(clusters, "1", "c")
					}
				}
				for i := 2; i < scopes; i++ {
					if gap := opened[i].Sub(opened[i-1]); gap < admitPause {
						t.Errorf("stream %d came %v after the one before", i, gap)
					}
				}
				if all := opened[scopes-1].Sub(opened[1]); all > scopes*admitPause {
					t.Errorf("it took %v until all were back", all)
				}
				<-time.After(stableAfter)
				synctest.Wait()
				for _, s := range sessions {
					if st := s.Status(); st.State != StateConnected || st.Opened != 2 {
						t.Errorf("%s after %d streams", st.State, st.Opened)
					}
				}
			})
		})
	}
}

// A probe that is not answered, because nothing was missed, shows by standing that the
// server is there. One that the server ends does not, and the next scope has its turn.
func TestUPS2_SilentProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		scoped(t, srv, u, 3)
		srv.stop()
		<-time.After(time.Minute)
		srv = n.serve("a")
		refused := srv.accept()
		if u.entrance.outages.Now().Since.IsZero() {
			t.Error("a stream that was opened ended the outage")
		}
		refused.end <- status.Error(codes.Unavailable, "starting")
		probe := srv.accept()
		<-time.After(probeStands - time.Millisecond)
		if len(srv.streams) > 0 || u.entrance.outages.Now().Since.IsZero() {
			t.Error("others came before the probe stood")
		}
		for range 2 {
			ss := srv.accept()
			if stood := ss.opened.Sub(probe.opened); stood < probeStands || stood > probeStands+2*admitPause {
				t.Errorf("another stream came when the probe stood for %v", stood)
			}
		}
		if got := u.entrance.outages.Now(); !got.Since.IsZero() || got.Err != nil {
			t.Errorf("still %+v", got)
		}
	})
}

// After a server that answered and ended its streams, too: the one scope that it lets in may ask for a name that
// does not exist, of which a server may say nothing.
func TestUPS2_SilentProbeAfterAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv, u := n.serve("a"), newUpstream(t, n.config("a"))
		run(t, u, newStore(sub(clusters, "*")), &recorder{})
		answered := srv.accept()
		answered.next()
		answered.respond(clusters, "1", "c")
		run(t, u, newStore(sub(endpoints, "absent")), &recorder{})
		srv.accept()
		synctest.Wait()
		srv.stop()
		srv = n.serve("a")
		probe := srv.accept()
		for probe.next().GetTypeUrl() != endpoints {
			probe.end <- status.Error(codes.Unavailable, "it is the other's turn")
			probe = srv.accept()
		}
		if stood := srv.accept().opened.Sub(probe.opened); stood < probeStands || stood > probeStands+2*admitPause {
			t.Errorf("the other stream came when the probe stood for %v", stood)
		}
	})
}

// A server that has no resources left is given more time.
func TestUPS2_Exhausted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("a", func(s *server) {
			s.refuse = status.Error(codes.ResourceExhausted, "too many streams")
			s.opts = nil
		})
		obs := &recorder{}
		run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), obs)
		<-time.After(time.Hour)
		obs.locked(func() {
			longest := slices.Max(obs.delays)
			if longest <= 2*DefaultBackoffMax || longest > longBackoff {
				t.Errorf("longest delay %v, want up to %v", longest, longBackoff)
			}
		})
	})
}

// A scope that nobody waits for does not reconnect before somebody comes, and what it has
// to let go of goes meanwhile.
func TestUPS2_ScopeWithoutClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		stores, sessions := scoped(t, srv, u, 2)
		stores[0].leave()
		srv.stop()
		<-time.After(time.Minute)
		srv = n.serve("a")
		srv.accept().respond(clusters, "1", "c")
		<-time.After(time.Hour)
		if got := sessions[0].Status(); got.Opened != 1 || got.State != StateIdle {
			t.Errorf("without clients: %d streams, %s", got.Opened, got.State)
		}
		stores[0].want(0, []wireSubscription{sub(clusters, "*")}, unsub(clusters, "x"))
		<-time.After(time.Second)
		stores[0].get(func(s *memStore) {
			if len(s.pending[streamOf(0)]) > 0 || s.restarts[streamOf(0)] != 1 {
				t.Errorf("pending %v after %d restarts", s.pending[streamOf(0)], s.restarts[streamOf(0)])
			}
		})
		start := time.Now()
		stores[0].come()
		if ss := srv.accept(); ss.opened.Sub(start) > 0 {
			t.Errorf("the stream came after %v", ss.opened.Sub(start))
		}
		if got := sessions[1].Status(); got.Opened != 2 {
			t.Errorf("with clients: %d streams", got.Opened)
		}
	})
}

// All scopes of a control plane know one outage: since when, why, and that it is over.
func TestUPS2_Outages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		cfg := n.config("a")
		cfg.Outages = new(Outages)
		u := newUpstream(t, cfg)
		if got := cfg.Outages.Now(); got != (Outage{}) {
			t.Errorf("before any attempt: %+v", got)
		}
		scoped(t, srv, u, 2)
		if got := cfg.Outages.Now(); !got.Answered.Equal(time.Now()) || !got.Since.IsZero() {
			t.Errorf("after an answer: %+v", got)
		}
		begun := time.Now()
		srv.stop()
		synctest.Wait()
		if got := cfg.Outages.Now(); !got.Since.Equal(begun) || got.Err == nil || got.Err.Reason != ReasonUnavailable {
			t.Errorf("at the beginning of the outage: %+v", got)
		}
		<-time.After(time.Minute)
		synctest.Wait()
		got := cfg.Outages.Now()
		if !got.Since.Equal(begun) || got.Err == nil || got.Err.Reason != ReasonUnreachable || !got.Answered.Equal(begun) {
			t.Errorf("in the outage: %+v", got)
		}
		srv = n.serve("a")
		srv.accept().respond(clusters, "2", "c")
		srv.accept()
		synctest.Wait()
		if got := cfg.Outages.Now(); !got.Since.IsZero() || got.Err != nil {
			t.Errorf("at the end of the outage: %+v", got)
		}
	})
}

// Where nobody tries an outage is not known to last: it begins anew with who comes.
func TestUPS2_OutageBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		stores, _ := scoped(t, srv, u, 1)
		stores[0].leave()
		srv.stop()
		synctest.Wait()
		begun := u.entrance.outages.Now().Since
		if begun.IsZero() {
			t.Error("no outage")
		}
		<-time.After(OutageFresh - time.Second)
		stores[0].come()
		synctest.Wait()
		if got := u.entrance.outages.Now(); !got.Since.Equal(begun) || !got.Tried.Equal(time.Now()) {
			t.Errorf("soon after: %+v", got)
		}
		stores[0].leave()
		<-time.After(time.Hour)
		stores[0].come()
		synctest.Wait()
		if got := u.entrance.outages.Now(); !got.Since.Equal(time.Now()) {
			t.Errorf("an hour later: %+v", got)
		}
	})
}

// One stream that is lost is no outage as long as another one is good.
func TestUPS2_OneStreamIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		store := newStore(sub(clusters, "*"))
		run(t, u, store, nil)
		first := srv.accept()
		first.respond(clusters, "1", "c")
		first.answer()
		scoped(t, srv, u, 1)
		for range 5 {
			first.end <- status.Error(codes.PermissionDenied, "not this one")
			synctest.Wait()
			if got := u.entrance.outages.Now(); !got.Since.IsZero() {
				t.Errorf("an outage: %+v", got)
			}
			first = srv.accept()
		}
	})
}

// answersClustersOnly answers each request for clusters, and ends the stream with the next request for another type.
func answersClustersOnly(_ any, ss grpc.ServerStream, info *grpc.StreamServerInfo, _ grpc.StreamHandler) error {
	delta := strings.Contains(info.FullMethod, "Delta")
	content := &anypb.Any{TypeUrl: clusters}
	var req interface {
		GetTypeUrl() string
		GetResponseNonce() string
	} = new(discoveryv3.DiscoveryRequest)
	var answer any = &discoveryv3.DiscoveryResponse{TypeUrl: clusters, Nonce: "1", VersionInfo: "1", Resources: []*anypb.Any{content}}
	if delta {
		req = new(discoveryv3.DeltaDiscoveryRequest)
		answer = &discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusters, Nonce: "1", Resources: []*discoveryv3.Resource{{Name: "a", Version: "1", Resource: content}}}
	}
	for {
		if err := ss.RecvMsg(req); err != nil {
			return err
		}
		switch {
		case req.GetTypeUrl() != clusters:
			return status.Error(codes.Unavailable, "the backend of this type is down")
		case req.GetResponseNonce() == "":
			if err := ss.SendMsg(answer); err != nil {
				return err
			}
		}
	}
}

// A control plane that answers a type and then ends the stream, each time, is called as rarely as one that ends each
// stream at once: an answer does not end the growth of the waits.
func TestAnswersAndEnds_UPS2_SUR8(t *testing.T) {
	for _, api := range []APIType{AggregatedDeltaGRPC, AggregatedGRPC} {
		for scopes, most := range map[int]int64{1: 6, 30: 30} {
			for _, before := range []string{"from the start", "after an hour"} {
				t.Run(fmt.Sprint(api, " ", scopes, " ", before), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						f := newFaulty(t)
						a := f.plane("a:1", api)
						a.set("1", "a")
						u := f.upstream(api, nil, []string{"a:1"})
						breaks := func() {
							a.stop()
							a.opts = []grpc.ServerOption{grpc.ChainStreamInterceptor(answersClustersOnly)}
							a.serve()
							a.asked.Store(0)
						}
						if before == "from the start" {
							breaks()
						}
						for range scopes {
							run(t, u, newStore(sub(clusters, "*"), sub(listeners, "*")), nil)
						}
						if before == "after an hour" {
							time.Sleep(time.Hour)
							breaks()
						}
						time.Sleep(10 * time.Second)
						synctest.Wait()
						if got := a.asked.Load(); got > most || got == 0 {
							t.Errorf("%d streams in 10 s, want at most %d", got, most)
						}
						before := a.asked.Load()
						time.Sleep(time.Minute)
						if got := a.asked.Load() - before; got > 6*most || got < 60/int64(DefaultBackoffMax/time.Second) {
							t.Errorf("%d streams in the minute after", got)
						}
					})
				})
			}
		}
	}
}

// One restart after a healthy hour costs no more than the first wait, whatever there was before that hour.
func TestRestartAfterAHealthyHour_UPS2(t *testing.T) {
	for _, api := range APITypes() {
		t.Run(string(api), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(t)
				a := f.plane("a:1", api)
				a.set("1", "a")
				a.stop()
				store := wanting(api, "a")
				run(t, f.upstream(api, nil, []string{"a:1"}), store, nil)
				time.Sleep(time.Minute) // the waits have grown
				a.serve()
				if took := until(func() bool { return store.has("a") }); took > DefaultBackoffMax+time.Second {
					t.Fatalf("begun after %v", took)
				}
				for _, name := range []string{"b", "c", "d"} {
					time.Sleep(time.Hour)
					a.stop()
					a.set(name, "a", name)
					a.serve()
					if took := until(func() bool { return store.has(name) }); took > DefaultBackoffBase+100*time.Millisecond {
						t.Errorf("reconnected after %v", took)
					}
				}
			})
		})
	}
}
