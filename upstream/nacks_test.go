package upstream

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// version sends a resource under a version, which is the nonce as well.
func (as *anyStream) version(state bool, version, name string) {
	as.t.Helper()
	if state {
		as.state(clusters, version, version, name)
		return
	}
	as.send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: clusters, Nonce: version, Resources: []*discoveryv3.Resource{
		{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: clusters, Value: named(name)}},
	}})
}

// A server that answers each NACK with the same content at once gets one NACK a second (SUR-8), with the nonce of
// the response that it answers (STR-8). After ten because of clients the content is acknowledged (ACK-7).
func TestNacksOfTheSameContent_SUR8_ACK7_STR8(t *testing.T) {
	for name, c := range map[string]struct{ state, clients bool }{
		"incremental, the relay rejects":        {false, false},
		"state of the world, the relay rejects": {true, false},
		"incremental, a client rejects":         {false, true},
		"state of the world, a client rejects":  {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				api, method := AggregatedDeltaGRPC, deltaADS
				if c.state {
					api, method = AggregatedGRPC, stateADS
				}
				cfg, store := n.speaking(api, "a"), newStore(sub(clusters, "*"))
				if c.clients {
					cfg.Nack.Wait = nackWait
				} else {
					store.refuse = errors.New("not this")
				}
				s := run(t, newUpstream(t, cfg), store, nil)
				as := srv.accept(method)
				began, sent, nacks, acks := time.Now(), 0, 0, 0
				serve := func(until time.Duration) {
					end := time.After(until - time.Since(began))
					for sent < 1000 {
						select {
						case r := <-as.reqs:
							if nonce := fmt.Sprint(sent); sent > 0 && r.GetResponseNonce() != nonce {
								t.Errorf("an answer has the nonce %s, want %s", r.GetResponseNonce(), nonce)
							}
							switch {
							case r.GetErrorDetail() != nil:
								nacks++
							case r.GetResponseNonce() != "":
								acks++
								continue
							}
						case <-end:
							return
						}
						sent++
						as.version(c.state, fmt.Sprint(sent), "c")
						synctest.Wait()
						if c.clients {
							s.Tell(rejected(clusters, uint64(sent), "not this"))
						}
					}
				}
				serve(10*time.Second - time.Millisecond)
				if nacks > 10 || nacks < 9 {
					t.Errorf("%d NACKs in ten seconds, want one a second", nacks)
				}
				serve(20 * time.Second)
				if c.clients && (nacks != maxSameNacks || acks != 1) {
					t.Errorf("%d NACKs because of clients and %d ACKs, want %d and 1", nacks, acks, maxSameNacks)
				}
				if !c.clients && (nacks < 19 || nacks > 20 || acks > 0) {
					t.Errorf("%d NACKs in twenty seconds and %d ACKs", nacks, acks)
				}
			})
		})
	}
}

// Other content is answered at once, behind the NACK that waits. A server that sends the same again without waiting for
// answers gets one NACK for all (SUR-8).
func TestNackThatWaitsGoesBeforeOthers_SUR8_STR8(t *testing.T) {
	for name, state := range map[string]bool{"incremental": false, "state of the world": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				api, method := AggregatedDeltaGRPC, deltaADS
				if state {
					api, method = AggregatedGRPC, stateADS
				}
				store := newStore(sub(clusters, "*"))
				store.refuse = errors.New("not this")
				run(t, newUpstream(t, n.speaking(api, "a")), store, nil)
				as := srv.accept(method)
				as.next()
				answers := func(want ...string) {
					t.Helper()
					synctest.Wait()
					var got []string
					for len(as.reqs) > 0 {
						r := <-as.reqs
						got = append(got, fmt.Sprint(r.GetResponseNonce(), " ", r.GetErrorDetail().GetMessage()))
					}
					if !slices.Equal(got, want) {
						t.Errorf("answers %q, want %q", got, want)
					}
				}
				as.version(state, "1", "c")
				answers("1 not this")
				as.version(state, "2", "c")
				as.version(state, "3", "c")
				answers()
				as.version(state, "4", "d")
				answers("3 not this", "4 not this")
				as.version(state, "5", "d")
				synctest.Wait()
				store.get(func(s *memStore) { s.refuse = nil })
				as.version(state, "6", "e")
				answers("5 not this", "6 ")
				store.get(func(s *memStore) { s.refuse = errors.New("not this") })
				<-time.After(nackPause)
				as.version(state, "7", "d")
				answers("7 not this")
				as.version(state, "8", "d")
				<-time.After(nackPause - time.Millisecond)
				answers()
				<-time.After(time.Millisecond)
				answers("8 not this")

				// A stream that ends takes what waits with it (STR-3).
				as.version(state, "9", "d")
				synctest.Wait()
				as.end <- status.Error(codes.Unavailable, "restarting")
				as = srv.accept(method)
				as.next()
				<-time.After(2 * nackPause)
				answers()
			})
		})
	}
}

// A change of names while a NACK waits goes behind it, with its nonce and the version accepted last (STR-9, ACK-2).
func TestNackThatWaitsAndNames_SUR8_STR9_ACK2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(endpoints, "x"))
		run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		as := srv.accept(stateADS)
		as.expect("[x] v= n=")
		as.state(endpoints, "1", "n1", "x")
		as.expect("[x] v=1 n=n1")
		store.get(func(s *memStore) { s.refuse = errors.New("not this") })
		as.state(endpoints, "2", "n2", "x")
		as.expect("[x] v=1 n=n2 NACK not this")
		as.state(endpoints, "2", "n3", "x")
		synctest.Wait()
		as.silent()
		store.want(0, []wire.Subscription{sub(endpoints, "x", "y")}, sub(endpoints, "y"))
		as.expect("[x] v=1 n=n3 NACK not this")
		as.expect("[x y] v=1 n=n3")
		<-time.After(2 * nackPause)
		synctest.Wait()
		as.silent()
	})
}

// An answer that clients decide and that is the same NACK again waits as well; the ACK of what follows does not (ACK-7).
func TestNackOfClientsWaits_SUR8_ACK7(t *testing.T) {
	withHeld(t, "again", func(h *heldAnswers) {
		h.respond(clusters, "1", "a")
		h.tell(rejected(clusters, 1, "not a"))
		h.next("1: not a")
		h.respond(clusters, "2", "a")
		h.tell(rejected(clusters, 2, "not a"))
		h.answers(0, 1)
		h.respond(endpoints, "3", "x")
		h.tell(word(ack.Accepted, endpoints, 3))
		h.next("3")
		h.after(nackPause)
		h.next("2: not a")
		h.answers(1, 2)
	})
}

// What is acknowledged at once, since clients had it rejected too often, goes behind the answers that wait (STR-8).
func TestSpentContentGoesBehindHeldAnswers_ACK7_STR8(t *testing.T) {
	withHeld(t, "behind", func(h *heldAnswers) {
		for i := range uint64(maxSameNacks) {
			h.respond(clusters, fmt.Sprint(i+1), "a")
			h.tell(rejected(clusters, i+1, "not a"))
			h.after(nackPause)
			h.next(fmt.Sprint(i+1, ": not a"))
		}
		h.respond(clusters, "b", "b")
		h.answers(0, maxSameNacks)
		h.respond(clusters, "again", "a")
		h.next("b")
		h.next("again")
		h.answers(2, maxSameNacks)
	})
}

// What is remembered is bounded, whatever types a server invents.
func TestNacksAreBounded_SUR8(t *testing.T) {
	var n nacks
	now := time.Unix(1000, 0)
	for i := range 10 * maxTypes {
		e := envelope{typeURL: invented(i), content: 1}
		if n.wait(e, errNotAsked, now) {
			t.Fatalf("the first NACK of type %d waits", i)
		}
		if i < maxTypes/2 && !n.wait(e, errNotAsked, now) {
			t.Fatalf("the second NACK of type %d does not wait", i)
		}
	}
	if len(n) > maxTypes {
		t.Errorf("%d types are remembered, want at most %d", len(n), maxTypes)
	}
	if got := len(n.due(now.Add(nackPause))); got != maxTypes/2 {
		t.Errorf("%d NACKs are due, want %d", got, maxTypes/2)
	}
}

// A server that keeps its resources in a map sends the same content in another order.
func TestNackOfTheSameContentInAnotherOrder_SUR8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(clusters, "*"))
		store.refuse = errors.New("not this")
		run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		as := srv.accept(stateADS)
		as.expect("[] v= n=")
		as.state(clusters, "1", "n1", "c", "d")
		as.expect("[] v= n=n1 NACK not this")
		as.state(clusters, "2", "n2", "d", "c")
		synctest.Wait()
		as.silent()
		<-time.After(nackPause)
		as.expect("[] v= n=n2 NACK not this")
	})
}
