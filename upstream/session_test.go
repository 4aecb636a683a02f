package upstream

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Every stream begins with the node and no other request has it; the second
// stream resumes with the versions that the first brought (STR-2, RES-12,
// RES-14); what is cached hears nothing of the loss but that it happened (OPS-1).
func TestSTR2RES12NodeFirstAndResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store, obs := newStore(sub(clusters, "*"), sub(endpoints, "x", "y")), &recorder{}
		s := run(t, newUpstream(t, n.config("a")), store, obs)

		ss := srv.accept()
		first, second := ss.next(), ss.next()
		if first.GetNode().GetId() != "relay" || second.GetNode() != nil {
			t.Errorf("nodes %v, %v; want it in the first request only", first.GetNode(), second.GetNode())
		}
		if first.GetTypeUrl() != clusters || !slices.Equal(wants(first), []string{"*"}) {
			t.Errorf("first request %v", first)
		}
		if second.GetTypeUrl() != endpoints || !slices.Equal(second.GetResourceNamesSubscribe(), []string{"x", "y"}) {
			t.Errorf("second request %v", second)
		}
		if len(first.GetInitialResourceVersions())+len(second.GetInitialResourceVersions()) > 0 {
			t.Error("versions of nothing")
		}
		ss.respond(endpoints, "1", "x", "y")
		if ack := ss.answer(); ack.GetNode() != nil {
			t.Error("an ACK with the node")
		}
		synctest.Wait()
		if st := s.Status(); st.State != StateConnected || st.Streams != 1 || st.Freshness.LastResponse.IsZero() {
			t.Errorf("status %+v, want connected", st)
		}

		ss.end <- status.Error(codes.Unavailable, "restarting")
		synctest.Wait()
		if st := s.Status(); st.State != StateConnecting || st.LastError == nil || st.LastError.Reason != ReasonUnavailable || st.Lost != 1 {
			t.Errorf("status %+v, want connecting because unavailable", st)
		}
		ss = srv.accept()
		first, second = ss.next(), ss.next()
		if first.GetNode().GetId() != "relay" || second.GetNode() != nil {
			t.Errorf("nodes %v, %v on the second stream", first.GetNode(), second.GetNode())
		}
		want := map[string]string{"x": "v1", "y": "v1"}
		if diff := cmp.Diff(want, second.GetInitialResourceVersions()); diff != "" {
			t.Errorf("initial_resource_versions (-want +got):\n%s", diff)
		}
		if err := s.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
		store.get(func(s *memStore) {
			if s.restarts[streamOf(0)] != 2 || s.lost[streamOf(0)] != 2 || len(s.applied) != 1 {
				t.Errorf("%d restarts, %d losses, %d responses; want 2, 2, 1", s.restarts[streamOf(0)], s.lost[streamOf(0)], len(s.applied))
			}
			room := DefaultMaxRequestSize - proto.Size(first.GetNode())
			if got := s.limits[0]; got >= room || got < room-2*maxNameRoom {
				t.Errorf("RES-14: limit for the versions = %d with room for %d", got, room)
			}
		})
		obs.locked(func() {
			want := []State{StateConnecting, StateConnected, StateConnecting, StateIdle}
			if diff := cmp.Diff(want, obs.states); diff != "" {
				t.Errorf("states (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{"ads unavailable", "ads shutdown"}, obs.closed); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
		})
	})
}

// A stream that resumes and missed nothing is not answered at all; after a
// while it counts as good all the same.
func TestQuietStreamIsConnected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), nil)
		srv.accept()
		<-time.After(stableAfter - time.Second)
		if got := s.Status().State; got != StateConnecting {
			t.Errorf("state = %s before it was stable", got)
		}
		<-time.After(2 * time.Second)
		if got := s.Status().State; got != StateConnected {
			t.Errorf("state = %s", got)
		}
	})
}

// Each response is answered exactly once with its nonce: an ACK, or a NACK with
// the Store's reason (ACK-2, STR-8); and demand in between carries no nonce (STR-9).
func TestSTR8STR9ACK2Answers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store, obs := newStore(sub(clusters, "*")), &recorder{}
		s := run(t, newUpstream(t, n.config("a")), store, obs)
		ss := srv.accept()
		ss.next()

		for _, nonce := range []string{"1", "2", "3"} {
			ss.respond(clusters, nonce, "c")
		}
		for _, nonce := range []string{"1", "2", "3"} {
			ack := ss.next()
			if ack.GetResponseNonce() != nonce || ack.GetErrorDetail() != nil || ack.GetTypeUrl() != clusters ||
				len(ack.GetResourceNamesSubscribe())+len(ack.GetResourceNamesUnsubscribe())+len(ack.GetInitialResourceVersions()) > 0 {
				t.Errorf("ACK %v, want nonce %s and nothing else", ack, nonce)
			}
		}

		store.want(0, []wireSubscription{sub(clusters, "*", "d")}, sub(clusters, "d"))
		if req := ss.next(); req.GetResponseNonce() != "" || !slices.Equal(req.GetResourceNamesSubscribe(), []string{"d"}) {
			t.Errorf("STR-9: request %v, want d without a nonce", req)
		}

		store.get(func(s *memStore) { s.refuse = errors.New("name \xff comes twice") })
		ss.respond(clusters, "4", "c")
		nack := ss.next()
		if nack.GetResponseNonce() != "4" || codes.Code(nack.GetErrorDetail().GetCode()) != codes.InvalidArgument ||
			!strings.Contains(nack.GetErrorDetail().GetMessage(), "comes twice") {
			t.Errorf("ACK-6: NACK %v", nack)
		}
		synctest.Wait()
		if len(ss.reqs) > 0 {
			t.Errorf("STR-8: one request too many: %v", <-ss.reqs)
		}
		st := s.Status()
		if st.Responses != 4 || st.Acks != 3 || st.Nacks != 1 || st.Requests != 6 {
			t.Errorf("status %+v", st)
		}
		if st.LastRejection == nil || st.LastRejection.Nonce != "4" || st.State != StateConnected {
			t.Errorf("last rejection %v in state %s", st.LastRejection, st.State)
		}
		obs.locked(func() {
			want := map[RequestKind]int{KindSubscribe: 2, KindAck: 3, KindNack: 1}
			if diff := cmp.Diff(want, obs.sent); diff != "" {
				t.Errorf("sent (-want +got):\n%s", diff)
			}
			if obs.received != 4 || obs.bytes == 0 {
				t.Errorf("received %d responses of %d bytes", obs.received, obs.bytes)
			}
		})
	})
}

func encode(t *testing.T, r *discoveryv3.DeltaDiscoveryResponse) wire.Raw {
	t.Helper()
	b, err := proto.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// undecodable is a response with a resource whose name says that it is longer than
// the resource.
func undecodable(t *testing.T, typeURL, nonce string) wire.Raw {
	t.Helper()
	return append(wire.Raw{2<<3 | 2, 3, 1<<3 | 2, 9, 'x'},
		encode(t, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: nonce})...)
}

// What cannot be accepted is refused with the reason, and the stream lives on.
func TestACK6Rejected(t *testing.T) {
	for name, tt := range map[string]struct {
		msg  wire.Raw
		want string
	}{
		"undecodable": {undecodable(t, clusters, "n"), "resources[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a")
				store := newStore(sub(clusters, "*"))
				s := run(t, newUpstream(t, n.config("a")), store, nil)
				ss := srv.accept()
				ss.next()
				if err := ss.SendMsg(tt.msg); err != nil {
					t.Fatal(err)
				}
				nack := ss.next()
				if nack.GetResponseNonce() != "n" || !strings.Contains(nack.GetErrorDetail().GetMessage(), tt.want) {
					t.Errorf("answer %v, want a NACK of n that says %q", nack, tt.want)
				}
				ss.respond(clusters, "m", "c")
				if ack := ss.next(); ack.GetResponseNonce() != "m" || ack.GetErrorDetail() != nil {
					t.Errorf("answer %v, want an ACK of m", ack)
				}
				if st := s.Status(); st.Opened != 1 || st.LastRejection == nil {
					t.Errorf("status %+v", st)
				}
				store.get(func(s *memStore) {
					if len(s.applied) != 1 {
						t.Errorf("%d responses applied", len(s.applied))
					}
				})
			})
		})
	}
}

// A response that says neither what it is nor has a nonce cannot be refused:
// the stream is given up, with growing delays since it may go on like that.
func TestACK6Unanswerable(t *testing.T) {
	for name, msg := range map[string]wire.Raw{
		"garbage":              {0xff, 0xff, 0xff},
		"empty":                {},
		"nonsense, no nonce":   append(wire.Raw{4<<3 | 2, 1}, 'x'),
		"nonce without a type": append(wire.Raw{5<<3 | 2, 1}, 'n'),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a")
				store, obs := newStore(sub(clusters, "*")), &recorder{}
				run(t, newUpstream(t, n.config("a")), store, obs)
				const rounds = 4
				for range rounds {
					ss := srv.accept()
					ss.respond(clusters, "1", "c") // good so far
					if err := ss.SendMsg(msg); err != nil {
						t.Fatal(err)
					}
					<-ss.Context().Done()
				}
				srv.accept()
				synctest.Wait()
				obs.locked(func() {
					if want := slices.Repeat([]string{"ads malformed"}, rounds); !slices.Equal(obs.closed, want) {
						t.Errorf("closed %v", obs.closed)
					}
					if len(obs.delays) != rounds {
						t.Errorf("delays %v, want %d", obs.delays, rounds)
					}
				})
				store.get(func(s *memStore) {
					if len(s.applied) != rounds || s.restarts[streamOf(0)] != rounds+1 {
						t.Errorf("%d applied, %d restarts", len(s.applied), s.restarts[streamOf(0)])
					}
				})
			})
		})
	}
}

// The first names of a type go out at once. Those that arrive within the batch time
// after them go out together, and the batch ends that long after its first signal,
// however many follow. Another type's first names wait for nobody.
func TestUPS3_SUB10Batching(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store := newStore(sub(clusters, "*"))
		run(t, newUpstream(t, n.config("a")), store, nil)
		ss := srv.accept()
		ss.next()

		want := []wireSubscription{sub(clusters, "*")}
		written := func(when string, requests int) {
			t.Helper()
			synctest.Wait()
			if got := len(ss.reqs); got != requests {
				t.Errorf("%s: %d requests, want %d", when, got, requests)
			}
			for len(ss.reqs) > 0 {
				<-ss.reqs
			}
		}
		store.want(0, want, sub(endpoints, "a"))
		written("the first endpoints", 1)
		for range 4 {
			store.want(0, want, sub(endpoints, "e"))
			written("within the batch time", 0)
			<-time.After(time.Millisecond)
		}
		<-time.After(DefaultBatch - 4*time.Millisecond)
		written("the end of the batch", 4)
		store.want(0, want, sub(endpoints, "f"))
		written("just after a batch", 0)
		store.want(0, want, sub(listeners, "l"))
		written("another type, and what had waited", 2)
		store.want(0, want, unsub(listeners, "l"))
		<-time.After(DefaultBatch - time.Nanosecond)
		written("an unsubscription alone", 0)
		<-time.After(time.Nanosecond)
		written("at the end of its time", 1)
		store.want(0, want, sub(endpoints, "g"))
		written("names after a pause", 1)
	})
}

// The first demand of all opens the stream at once, and so does the first of a type
// with a stream of its own.
func TestUPS3_StreamsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serveAny("a")
		store, cfg := newTypedStore(), n.config("a")
		cfg.APIType = DeltaGRPC
		run(t, newUpstream(t, cfg), store, nil)
		synctest.Wait()
		start := time.Now()
		for _, typeURL := range []string{clusters, endpoints} {
			id := wire.StreamID{TypeURL: typeURL}
			store.wantOn(id, []wireSubscription{sub(typeURL, "a")})
			synctest.Wait()
			store.get(func(s *memStore) {
				if s.restarts[id] != 1 || !time.Now().Equal(start) {
					t.Errorf("%s: %d restarts after %v", typeURL, s.restarts[id], time.Since(start))
				}
			})
		}
	})
}

// The second stream comes and goes with what is wanted on it, with its own node,
// its own loss, and the last unsubscription written before it is closed; the
// first does not notice.
func TestSUB12SecondStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store, obs := newStore(sub(clusters, "*")), &recorder{}
		s := run(t, newUpstream(t, n.config("a")), store, obs)
		first := srv.accept()
		first.next()
		first.respond(clusters, "1", "c")
		first.answer()

		named := []wireSubscription{sub(clusters, "c")}
		store.want(1, named)
		second := srv.accept()
		if req := second.next(); req.GetNode().GetId() != "relay" || !slices.Equal(req.GetResourceNamesSubscribe(), []string{"c"}) {
			t.Errorf("request %v", req)
		}
		second.respond(clusters, "1", "c")
		second.answer()
		if got := len(n.dialled("a")); got != 1 {
			t.Errorf("%d connections for two streams", got)
		}

		second.end <- nil // only this one is restarted
		second = srv.accept()
		second.next()
		store.get(func(s *memStore) {
			if !maps.Equal(s.restarts, counts(1, 2)) || !maps.Equal(s.lost, counts(0, 1)) {
				t.Errorf("restarts %v, losses %v", s.restarts, s.lost)
			}
		})

		store.want(1, nil, unsub(clusters, "c"))
		if req := second.next(); !slices.Equal(req.GetResourceNamesUnsubscribe(), []string{"c"}) {
			t.Errorf("request %v", req)
		}
		<-second.halfEnd
		if second.Context().Err() != nil {
			t.Error("the stream was cut off, not closed")
		}
		second.end <- nil
		synctest.Wait()
		if st := s.Status(); st.Streams != 1 || st.State != StateConnected {
			t.Errorf("status %+v", st)
		}
		obs.locked(func() {
			if diff := cmp.Diff([]string{"ads#2 server_closed", "ads#2 unwanted"}, obs.closed); diff != "" {
				t.Errorf("closed (-want +got):\n%s", diff)
			}
		})
		if len(srv.streams) > 0 || len(first.reqs) > 0 {
			t.Error("the first stream noticed")
		}
	})
}

// A session that has nothing to ask has no stream and no connection, also
// against a server that does not end the stream that we closed.
func TestIdleSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store := newStore()
		u := newUpstream(t, n.config("a"))
		s := run(t, u, store, nil)
		<-time.After(time.Minute)
		if st := s.Status(); len(n.dialled("a")) > 0 || st.State != StateIdle {
			t.Errorf("connected with nothing to ask: %+v", st)
		}

		want := []wireSubscription{sub(endpoints, "x")}
		store.want(0, want)
		ss := srv.accept()
		ss.next()
		store.want(0, nil, unsub(endpoints, "x"))
		ss.next()
		ss.respond(endpoints, "late", "x")
		<-time.After(drainTime + time.Second)
		if ss.Context().Err() == nil {
			t.Error("the stream was never given up")
		}
		if st := s.Status(); st.State != StateIdle || st.Streams != 0 || st.LastError != nil {
			t.Errorf("status %+v", st)
		}
		p := u.transport.(*pool)
		p.mu.Lock()
		if got := len(p.conns); got != 0 {
			t.Errorf("connections to %d replicas left", got)
		}
		p.mu.Unlock()
		store.get(func(s *memStore) {
			if len(s.applied) != 0 {
				t.Error("a response that cannot be answered was applied")
			}
		})

		// Wanted again while the old stream is being closed.
		store.want(0, want)
		ss = srv.accept()
		ss.next()
		store.want(0, nil, unsub(endpoints, "x"))
		ss.next()
		store.want(0, want)
		ss = srv.accept()
		if req := ss.next(); !slices.Equal(req.GetResourceNamesSubscribe(), []string{"x"}) {
			t.Errorf("request %v", req)
		}
	})
}

// Where the Store asks for it the stream begins anew, at once, and what was
// wanted on it is asked for from the start.
func TestResubscribe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store, obs := newStore(sub(clusters, "*")), &recorder{}
		run(t, newUpstream(t, n.config("a")), store, obs)
		srv.accept().respond(clusters, "1", "c")
		synctest.Wait()
		store.get(func(s *memStore) { s.anew = true })
		start := time.Now()
		store.want(0, []wireSubscription{sub(clusters, "*", "d")}, sub(clusters, "d"))
		ss := srv.accept()
		if req := ss.next(); !slices.Equal(wants(req), []string{"*"}) || req.GetNode() == nil {
			t.Errorf("request %v", req)
		}
		if req := ss.next(); !slices.Equal(req.GetResourceNamesSubscribe(), []string{"d"}) {
			t.Errorf("request %v", req)
		}
		if got := time.Since(start); got != DefaultBatch {
			t.Errorf("UPS-3: begun anew after %v", got)
		}
		store.get(func(s *memStore) {
			if s.restarts[streamOf(0)] != 2 || s.lost[streamOf(0)] != 1 {
				t.Errorf("%d restarts, %d losses", s.restarts[streamOf(0)], s.lost[streamOf(0)])
			}
		})
		obs.locked(func() {
			if !slices.Equal(obs.closed, []string{"ads resubscribe"}) || len(obs.delays) > 0 {
				t.Errorf("closed %v, delays %v", obs.closed, obs.delays)
			}
		})
	})
}

// A stream that began anew is left alone for a while: clients whose subscriptions
// make it begin anew must not keep it from everybody else. What others want meanwhile is asked for. Who is
// alone takes it from nobody.
func TestResubscribePause_LIM2(t *testing.T) {
	for name, pause := range map[string]time.Duration{"shared": renewPause, "alone": alonePause} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a")
				store := newStore(sub(clusters, "*"))
				store.alone = name == "alone"
				run(t, newUpstream(t, n.config("a")), store, nil)
				ss := srv.accept()
				ss.next()
				var began []time.Time
				for i := range 3 {
					store.get(func(s *memStore) { s.anew = true })
					name := strconv.Itoa(i)
					store.want(0, []wireSubscription{sub(clusters, "*", name)}, sub(clusters, name))
					if i > 0 {
						if one := ss.next(); !slices.Equal(wants(one), []string{name}) {
							t.Errorf("request %v before the stream begins anew, want %s", one, name)
						}
					}
					ss = srv.accept()
					if all, one := ss.next(), ss.next(); !slices.Equal(wants(all), []string{"*"}) || !slices.Equal(wants(one), []string{name}) {
						t.Errorf("requests %v, %v", all, one)
					}
					began = append(began, time.Now())
				}
				for i, at := range began[1:] {
					if got := at.Sub(began[i]); got != pause {
						t.Errorf("begun anew after %v, want %v", got, pause)
					}
				}
			})
		})
	}
}

// While the stream may not begin anew the Store is asked now and then whether it still must.
func TestResubscribeNoMore_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store := newStore(sub(clusters, "*"))
		cfg := n.config("a")
		cfg.Wildcard = WildcardLegacy
		run(t, newUpstream(t, cfg), store, nil)
		srv.accept().next()
		store.get(func(s *memStore) { s.anew = true })
		store.want(0, []wireSubscription{sub(clusters, "*", "x")}, sub(clusters, "x"))
		ss := srv.accept()
		ss.next()
		ss.next()
		store.get(func(s *memStore) { s.anew = true })
		store.want(0, []wireSubscription{sub(clusters, "*", "x", "y")}, sub(clusters, "y"))
		ss.next()
		store.get(func(s *memStore) {
			s.anew = false
			s.pending[streamOf(0)] = []wireSubscription{sub(clusters, "glob")}
		})
		begun := time.Now()
		if one := ss.next(); !slices.Equal(wants(one), []string{"glob"}) || time.Since(begun) > renewLook {
			t.Errorf("request %v after %v", one, time.Since(begun))
		}
		<-time.After(2 * renewPause)
		if got := store.restarts[streamOf(0)]; got != 2 {
			t.Errorf("%d streams, want 2", got)
		}
	})
}

// The Store settles when it asked to, once, counted from the response.
func TestRES14Settle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store := newStore(sub(clusters, "*"))
		store.quiet = 15 * time.Second
		run(t, newUpstream(t, n.config("a")), store, nil)
		ss := srv.accept()
		<-time.After(time.Second)
		ss.respond(clusters, "1", "c")
		synctest.Wait()
		at := time.Now()
		<-time.After(time.Minute)
		store.get(func(s *memStore) {
			if len(s.settled) != 2 || s.settled[1].Sub(at) != s.quiet {
				t.Errorf("settled at %v after the response at %v", s.settled, at)
			}
		})
	})
}

// The Store settles when it says that something changed, also while no server can be asked: a ttl may run of what
// peers gave, or an operator's hold may end (TTL-2, GATE-4).
func TestSettleWhileAway_TTL2_GATE4(t *testing.T) {
	for name, prepare := range map[string]func(n *network, s *memStore){
		"no server can be reached":  func(*network, *memStore) {},
		"a server lets nobody in":   func(n *network, _ *memStore) { n.blackHole("a") },
		"nobody waits for anything": func(_ *network, s *memStore) { s.lonely = true },
		"nothing is wanted":         func(_ *network, s *memStore) { s.wanted = nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				store := newStore(sub(clusters, "*"))
				prepare(n, store)
				run(t, newUpstream(t, n.config("a")), store, nil)
				<-time.After(time.Minute)
				store.get(func(s *memStore) { s.settled = nil })
				notify.Signal(store.changed)
				<-time.After(DefaultBatch)
				synctest.Wait()
				store.get(func(s *memStore) {
					if len(s.settled) == 0 {
						t.Error("the Store was not asked when to settle")
					}
				})
			})
		})
	}
}

// A server that never reads delays neither its responses nor the end of Run,
// though more is to be written to it than any buffer takes.
func TestServerThatDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a", func(s *server) { s.deaf = true })
		many := longNames(8 << 20)
		store := newStore(sub(endpoints, many...))
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		ss := srv.accept()
		for i := range 100 {
			ss.respond(endpoints, string(rune('a'+i)), "x")
		}
		synctest.Wait()
		store.get(func(s *memStore) {
			if len(s.applied) != 100 {
				t.Errorf("%d responses applied", len(s.applied))
			}
		})
		// It reads at last: everything is there, and what was wanted meanwhile follows.
		store.want(0, []wireSubscription{sub(endpoints, "y")}, sub(endpoints, "y"))
		<-time.After(time.Second)
		names, acks := 0, 0
		for names <= len(many) || acks < 100 {
			req, err := ss.Recv()
			if err != nil {
				t.Fatal(err)
			}
			names += len(req.GetResourceNamesSubscribe())
			if req.GetResponseNonce() != "" {
				acks++
			}
		}
		store.want(0, []wireSubscription{sub(endpoints, "y")}, sub(endpoints, many...))
		<-time.After(time.Second)
		if err := s.stop(); !errors.Is(err, context.Canceled) {
			t.Errorf("Run = %v", err)
		}
	})
}

// Answers that nobody reads are not piled up without bound.
func TestServerThatOnlyWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a", func(s *server) { s.deaf = true })
		store, obs := newStore(sub(endpoints, longNames(1<<20)...)), &recorder{}
		run(t, newUpstream(t, n.config("a")), store, obs)
		ss := srv.accept()
		for range 3 * maxQueued { // as much again may be in the sender's hands
			if ss.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: endpoints, Nonce: "n"}) != nil {
				break
			}
		}
		<-ss.Context().Done()
		synctest.Wait()
		obs.locked(func() {
			if !slices.Equal(obs.closed, []string{"ads not_reading"}) {
				t.Errorf("closed %v", obs.closed)
			}
		})
	})
}

func TestRunEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.blackHole("a")
		u := newUpstream(t, n.config("a"))
		connecting := run(t, u, newStore(sub(clusters, "*")), nil)
		idle := run(t, u, newStore(), nil)
		synctest.Wait()
		if err := connecting.Run(t.Context()); !errors.Is(err, errRunning) {
			t.Errorf("a second Run = %v", err)
		}
		u.Close()
		for _, s := range []*running{connecting, idle} {
			if err := s.wait(); !errors.Is(err, ErrClosed) {
				t.Errorf("Run = %v", err)
			}
		}
		late, err := u.NewSession(SessionConfig{Store: newStore()})
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Run(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("Run after Close = %v", err)
		}
		u.Close()
	})
}
