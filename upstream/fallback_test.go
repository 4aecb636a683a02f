package upstream

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func relayNode() *corev3.Node { return &corev3.Node{Id: "relay"} }

// everyAPI are all variants.
func everyAPI() []APIType { return append(APITypes(), REST) }

// eachAPI tests all variants, each in a bubble of its own.
func eachAPI(t *testing.T, test func(t *testing.T, api APIType)) {
	t.Helper()
	for _, api := range everyAPI() {
		t.Run(string(api), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(t, api) })
		})
	}
}

// A server that falls silent, in whatever way, is left for the next one (SUR-2, UPS-1).
func TestSUR2_TheSecondEndpointServes(t *testing.T) {
	for _, api := range everyAPI() {
		for name, tt := range map[string]struct {
			fail   func(f *faulty, a *livePlane)
			within time.Duration
		}{
			"silent":     {func(_ *faulty, a *livePlane) { a.mute.Store(true) }, 70 * time.Second},
			"stopped":    {func(f *faulty, _ *livePlane) { f.fail("a:1", false) }, 20 * time.Second},
			"black hole": {func(f *faulty, _ *livePlane) { f.fail("a:1", true) }, 20 * time.Second},
		} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty(t)
					a, b := f.plane("a:1", api), f.plane("b:1", api)
					a.set("1", "x", "y")
					b.set("1", "x", "y")
					store, out, obs := wanting(api, "x", "y"), new(Outages), &recorder{}
					s := run(t, f.upstream(api, out, []string{"a:1"}, []string{"b:1"}), store, obs)
					if took := until(func() bool { return store.has("x") }); took > time.Second {
						t.Fatalf("begun after %v", took)
					}
					store.holdsAll()
					time.Sleep(time.Minute)
					tt.fail(f, a)
					b.set("2", "x", "y", "news")
					if api == REST {
						tt.within = 70 * time.Second // a poll that is held shows nothing
					}
					took := until(func() bool { return store.has("news") })
					t.Log("served by the second endpoint after", took)
					if took > tt.within {
						t.Errorf("served by the second endpoint after %v, want within %v; %+v", took, tt.within, s.Status())
					}
					if got := out.Contact(); !got.Unanswered.IsZero() {
						t.Errorf("still owed: %+v", got)
					}
				})
			})
		}
	}
}

// A server that is silent from the beginning, and one that takes connections and speaks no
// HTTP, are left within the time of an answer, as one that falls silent when a client asks.
func TestSUR2_SilentFromTheBeginning(t *testing.T) {
	for _, api := range everyAPI() {
		for name, fail := range map[string]func(f *faulty, a *livePlane){
			"silent":    func(_ *faulty, a *livePlane) { a.mute.Store(true) },
			"half-open": func(f *faulty, _ *livePlane) { f.fail("a:1", false) },
		} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty(t)
					a, b := f.plane("a:1", api), f.plane("b:1", api)
					a.set("1", "x")
					b.set("1", "x")
					fail(f, a)
					store, obs := wanting(api, "x"), &recorder{}
					s := run(t, f.upstream(api, nil, []string{"a:1"}, []string{"b:1"}), store, obs)
					if took := until(func() bool { return store.has("x") }); took > DefaultResponseTimeout+100*time.Millisecond {
						t.Errorf("served by the second endpoint after %v; %+v", took, s.Status())
					}
					moves := len(obs.moves)
					time.Sleep(time.Hour)
					if st := s.Status(); st.State != StateConnected || st.Lost > 0 {
						t.Errorf("an hour later: %+v", st)
					}
					obs.locked(func() {
						if len(obs.moves) != moves {
							t.Errorf("moves %v", obs.moves)
						}
					})
				})
			})
		}
	}
}

// Names that are added on a stream are owed no answer. A server that is silent then is left like any that says nothing.
func TestSUR2_SilentWhenAClientAsks(t *testing.T) {
	for _, api := range []APIType{AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC} {
		for name, fail := range map[string]func(f *faulty, a *livePlane){
			"silent":    func(_ *faulty, a *livePlane) { a.mute.Store(true) },
			"half-open": func(f *faulty, _ *livePlane) { f.fail("a:1", false) },
		} {
			t.Run(string(api)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					f := newFaulty(t)
					a, b := f.plane("a:1", api), f.plane("b:1", api)
					a.set("1", "x", "y")
					b.set("1", "x", "y")
					store := wanting(api, "x")
					s := run(t, f.upstream(api, nil, []string{"a:1"}, []string{"b:1"}), store, nil)
					until(func() bool { return store.has("x") })
					store.holdsAll()
					time.Sleep(59 * time.Second)
					fail(f, a)
					b.set("2", "x", "y", "news")
					id := streamOf(0)
					if api.PerType() {
						id.TypeURL = endpoints
					}
					all := []wire.Subscription{sub(endpoints, "x", "y")}
					if !api.PerType() {
						all = append(all, sub(clusters, "*"))
					}
					store.wantOn(id, all, sub(endpoints, "y"))
					if took := until(func() bool { return store.has("news") }); took > quietTime+DefaultResponseTimeout+100*time.Millisecond {
						t.Errorf("served by the second endpoint after %v; %+v", took, s.Status())
					}
				})
			})
		}
	}
}

// A better endpoint that comes back mute, or that comes and goes every five seconds, does not
// cost a stream; one that answers and stands is returned to.
func TestSUR2_LOC6_ReturnOnlyToOneThatAnswers(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f := newFaulty(t)
		a, b := f.plane("a:1", api), f.plane("b:1", api)
		a.set("1", "x")
		b.set("1", "x")
		a.stop()
		store, obs := wanting(api, "x"), &recorder{}
		u := f.upstream(api, nil, []string{"a:1"}, []string{"b:1"})
		s := run(t, u, store, obs)
		until(func() bool { return store.has("x") })
		opened := s.Status().Opened
		undisturbed := func(what string) {
			t.Helper()
			if st := s.Status(); st.Opened != opened || st.Lost > 0 || st.State != StateConnected || st.EndpointChanges != 1 {
				t.Errorf("%s: %+v", what, st)
			}
		}
		for range 60 {
			a.serve()
			time.Sleep(5 * time.Second)
			a.stop()
			time.Sleep(5 * time.Second)
		}
		undisturbed("an endpoint that flaps")
		a.mute.Store(true)
		a.serve()
		time.Sleep(10 * time.Minute)
		undisturbed("a mute endpoint")
		if x := u.Replicas()[0]; x.SilentSince.IsZero() || time.Since(x.SilentSince) > 10*time.Minute {
			t.Errorf("the mute replica: %+v", x)
		}
		obs.locked(func() {
			if len(obs.silent) < 5 {
				t.Errorf("the mute endpoint was counted %d times in ten minutes", len(obs.silent))
			}
		})
		a.mute.Store(false)
		time.Sleep(2*DefaultFailbackInterval + stableAfter + time.Second)
		synctest.Wait()
		if st := s.Status(); st.EndpointChanges != 2 || st.State != StateConnected {
			t.Errorf("an endpoint that answers: %+v", st)
		}
		if x := u.Replicas()[0]; !x.SilentSince.IsZero() {
			t.Errorf("the replica that answers: %+v", x)
		}
	})
}

// In a night without a change the streams that were resumed stay silent, by right. Nothing
// fails, and nothing is owed.
func TestSUR2_QuietNight(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f := newFaulty(t)
		a, b := f.plane("a:1", api), f.plane("b:1", api)
		a.set("1", "x", "y")
		b.set("1", "x", "y")
		store, out, obs := wanting(api, "x", "y"), new(Outages), &recorder{}
		u := f.upstream(api, out, []string{"a:1"}, []string{"b:1"})
		s := run(t, u, store, obs)
		until(func() bool { return store.has("x") })
		store.holdsAll()
		a.stop()
		a.serve()
		until(func() bool {
			return s.Status().State == StateConnected && s.Status().Endpoint != u.Replicas()[1].Endpoint
		})
		time.Sleep(time.Minute)
		opened, asked := s.Status().Opened, a.asked.Load()
		night := 24 * 60 // minutes
		if api.PerType() {
			night = 60 // they differ in the number of streams only
		}
		for range night {
			time.Sleep(time.Minute)
			if c := out.Contact(); !c.Unanswered.IsZero() || time.Since(c.Answered) > quietTime+time.Second {
				t.Fatalf("contact %+v at %v", c, time.Now())
			}
		}
		if st := s.Status(); st.Opened != opened || st.State != StateConnected || st.Endpoint != u.Replicas()[0].Endpoint {
			t.Errorf("after the night: %+v", st)
		}
		obs.locked(func() {
			if len(obs.silent)+obs.reused > 0 {
				t.Errorf("silent %v, versions reused %d", obs.silent, obs.reused)
			}
		})
		t.Log("streams and polls:", a.asked.Load()-asked)
	})
}

// With one endpoint alone the session waits longer each time, so that a server that is slow to
// begin gets to answer; what is cached has been stale since the last answer.
func TestSUR2_OneEndpointAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t)
		a := f.plane("a:1", AggregatedDeltaGRPC)
		a.set("1", "x")
		store, obs := wanting(AggregatedDeltaGRPC, "x"), &recorder{}
		s := run(t, f.upstream(AggregatedDeltaGRPC, nil, []string{"a:1"}), store, obs)
		until(func() bool { return store.has("x") })
		time.Sleep(time.Minute)
		last := time.Now()
		a.mute.Store(true)
		until(func() bool { return s.Status().State == StateConnecting })
		if st := s.Status(); st.Freshness.Stale.After(last) || last.Sub(st.Freshness.Stale) > quietTime+time.Second {
			t.Errorf("stale since %v, and the last answer came before %v", st.Freshness.Stale, last)
		}
		before := s.Status().Opened
		time.Sleep(10 * time.Minute)
		if got := s.Status().Opened - before; got > 15 {
			t.Errorf("%d streams in ten minutes", got)
		}
		if st := s.Status(); st.State != StateConnecting {
			t.Errorf("called %s", st.State)
		}
		a.mute.Store(false)
		if took := until(func() bool { return s.Status().State == StateConnected }); took > 90*time.Second {
			t.Errorf("back after %v", took)
		}
	})
}

// Of replicas of equal priority one falls silent: its scopes go to the other one, and not to
// the next priority; those of the other one stay.
func TestSUR2_SpreadReplicas(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f := newFaulty(t)
		planes := map[string]*livePlane{}
		for _, host := range []string{"a:1", "b:1", "c:1"} {
			planes[host] = f.plane(host, api)
			planes[host].set("1", "x")
		}
		u := f.upstream(api, nil, []string{"a:1", "b:1"}, []string{"c:1"})
		var sessions []*running
		for i := range 10 {
			store := wanting(api, "x")
			s, err := u.NewSession(SessionConfig{Node: relayNode(), Scope: string(rune('a' + i)), Store: store})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, start(t, s))
			until(func() bool { return store.has("x") })
		}
		prefix := strings.TrimSuffix(u.Replicas()[2].Endpoint, "c:1")
		a := prefix + "a:1"
		at := func(endpoint string) (n int) {
			for _, s := range sessions {
				if s.Status().Endpoint == endpoint {
					n++
				}
			}
			return n
		}
		if n := at(a); n == 0 || n == len(sessions) {
			t.Fatalf("%d of %d sessions are at the first replica", n, len(sessions))
		}
		planes["a:1"].mute.Store(true)
		if took := until(func() bool { return at(a) == 0 }); took > 70*time.Second {
			t.Errorf("left after %v", took)
		}
		time.Sleep(stableAfter + time.Second) // those that resume have nothing to hear
		if n := at(prefix + "c:1"); n > 0 {
			t.Errorf("%d sessions went to the next priority", n)
		}
		for _, s := range sessions {
			if st := s.Status(); st.EndpointChanges > 1 || st.State != StateConnected {
				t.Errorf("%+v", st)
			}
		}
		if got := planes["b:1"].asked.Load(); got > 200 {
			t.Errorf("%d streams or polls at the other replica", got)
		}
	})
}

// While the first endpoint is gone and the second one is mute, the one stream that is tried at a
// time leaves the mute one among all that do. It goes on trying (UPS-2).
func TestSUR2_UPS2_OneIsGoneAndTheOtherMute(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f := newFaulty(t)
		a, b := f.plane("a:1", api), f.plane("b:1", api)
		a.set("1", "x")
		u := f.upstream(api, nil, []string{"a:1"}, []string{"b:1"})
		var stores []*memStore
		for i := range 5 {
			store := wanting(api, "x")
			s, err := u.NewSession(SessionConfig{Node: relayNode(), Scope: string(rune('a' + i)), Store: store})
			if err != nil {
				t.Fatal(err)
			}
			start(t, s)
			stores = append(stores, store)
			until(func() bool { return store.has("x") })
			store.holdsAll()
		}
		b.mute.Store(true)
		a.stop()
		time.Sleep(time.Minute)
		a.set("2", "x", "news")
		a.serve()
		for i, store := range stores {
			if took := until(func() bool { return store.has("news") }); took > time.Minute {
				t.Errorf("scope %d is served after %v", i, took)
			}
		}
	})
}

// While one endpoint is gone and the other one mute, one scope has waited in vain for the mute one. The next scope that
// is let in tries the one that was tried longest ago: that may be back (UPS-2).
func TestSUR2_UPS2_EachEndpointInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFaulty(t)
		u := f.upstream(AggregatedDeltaGRPC, nil, []string{"a:1"}, []string{"b:1"})
		var scopes []*failback
		for _, scope := range []string{"x", "y"} {
			s, err := u.NewSession(SessionConfig{Node: relayNode(), Scope: scope, Store: wanting(AggregatedDeltaGRPC, "x")})
			if err != nil {
				t.Fatal(err)
			}
			scopes = append(scopes, newFailback(u, s, scope))
		}
		x, y := scopes[0], scopes[1]
		mute, gone := x.order[0], x.order[1]
		fails := func(f *failback, failed *[]*replica) {
			time.Sleep(time.Minute)
			u.replicas.found(f.replica, false)
			f.moveOn(f.replica, failed, false)
		}
		for _, f := range scopes { // both were at the one that is gone now
			f.moveTo(gone)
		}
		var failed [2][]*replica
		fails(x, &failed[0])
		fails(y, &failed[1])
		fails(x, &failed[0])
		if y.replica != mute {
			t.Fatal("nobody was to turn to the mute one again")
		}
		if y.spare(); y.replica != gone {
			t.Error("the mute one is tried again, though another scope has just waited for it in vain")
		}
		fails(y, &failed[1])
		if x.spare(); x.replica != mute {
			t.Error("the mute one is not tried again")
		}
		time.Sleep(time.Minute)
		if x.spare(); x.replica != mute {
			t.Error("a scope leaves an endpoint at which nobody failed since it turned there")
		}
	})
}

// A server that begins its versions anew after a restart is found out: everything is asked for
// without versions, in all scopes (ACK-4).
func TestSUR2_ACK4_VersionsUsedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		content := "old"
		answer := func(s *server) {
			s.deaf = true
		}
		srv := n.serve("a", answer)
		var handled sync.WaitGroup
		serve := func(srv *server, content string) {
			handled.Go(func() {
				for ss := range srv.streams {
					handled.Go(func() { countsVersions(ss, content) })
				}
			})
		}
		serve(srv, content)
		cfg := n.config("a")
		cfg.Keepalive.Response = 0
		u := newUpstream(t, cfg)
		obs := &recorder{}
		var stores []*memStore
		for range 3 {
			store := newStore(sub(clusters, "*"), sub(endpoints, "x"))
			stores = append(stores, store)
			run(t, u, store, obs)
		}
		time.Sleep(time.Minute)
		srv.stop()
		close(srv.streams)
		handled.Wait()
		for _, store := range stores {
			store.get(func(s *memStore) { s.applied = nil })
		}
		again := n.serve("a", answer)
		serve(again, "new")
		time.Sleep(time.Minute)
		for i, store := range stores {
			store.get(func(s *memStore) {
				fresh := false
				for _, r := range s.applied {
					for _, res := range r.Resources {
						fresh = fresh || strings.HasSuffix(string(res.Any()), "new")
					}
				}
				if !fresh {
					t.Errorf("scope %d was left with old contents", i)
				}
			})
		}
		obs.locked(func() {
			if obs.reused != 1 {
				t.Errorf("told %d times", obs.reused)
			}
		})
		again.stop()
		close(again.streams)
		handled.Wait()
	})
}

// countsVersions serves a stream as a server whose versions begin at 1 with each start, and
// sends nothing that a client holds by its version.
func countsVersions(ss *serverStream, content string) {
	for {
		req, err := ss.Recv()
		if err != nil {
			return
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		resp := &discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: "1"}
		for _, name := range wants(req) {
			if name == "*" {
				name = "x"
			}
			if req.GetInitialResourceVersions()[name] != "1" {
				resp.Resources = append(resp.Resources, &discoveryv3.Resource{
					Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: req.GetTypeUrl(), Value: []byte(content)},
				})
			}
		}
		if len(resp.GetResources()) > 0 && ss.Send(resp) != nil {
			return
		}
	}
}

// A server that ends the other stream of a node when it opens one is asked twice, and then
// no more; one that refuses the query is well.
func TestSUR2_ServersWithOneStreamForANode(t *testing.T) {
	for name, tt := range map[string]struct {
		ends      bool // the older stream
		most      int  // streams that may be lost in an hour
		wantAsked int  // queries in an hour, at least
	}{
		"the older stream ends": {true, maxEnds, 1},
		"the query is refused":  {false, 0, 55},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a", func(s *server) { s.deaf = true })
				cfg := n.config("a")
				cfg.Keepalive.Response = 0
				store := newStore(sub(endpoints, "x"))
				var handled sync.WaitGroup
				asked := 0
				handled.Go(func() {
					var current *serverStream
					for ss := range srv.streams {
						if current != nil && current.Context().Err() == nil {
							asked++
							if !tt.ends {
								ss.end <- status.Error(codes.AlreadyExists, "one stream for each node")
								continue
							}
							current.end <- status.Error(codes.Aborted, "the node opened another stream")
						}
						current = ss
						handled.Go(func() { countsVersions(ss, "content") })
					}
				})
				s := run(t, newUpstream(t, cfg), store, nil)
				time.Sleep(time.Hour)
				synctest.Wait()
				if st := s.Status(); st.Lost > uint64(tt.most) || st.State != StateConnected {
					t.Errorf("after an hour: %+v", st)
				}
				srv.stop()
				close(srv.streams)
				handled.Wait()
				if asked < tt.wantAsked {
					t.Errorf("asked %d times, want %d at least", asked, tt.wantAsked)
				}
			})
		})
	}
}

// A session that ends while its query has no answer leaves nothing that the control plane owes.
func TestSUR2_EndWithAQuery(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f, out := newFaulty(t), new(Outages)
		a := f.plane("a:1", api)
		a.set("1", "x")
		store := wanting(api, "x")
		s := run(t, f.upstream(api, out, []string{"a:1"}), store, nil)
		until(func() bool { return store.has("x") })
		store.holdsAll()
		time.Sleep(time.Minute)
		a.mute.Store(true)
		until(func() bool { return !out.Contact().Unanswered.IsZero() })
		_ = s.stop()
		if c := out.Contact(); !c.Unanswered.IsZero() {
			t.Errorf("after the session: %+v", c)
		}
	})
}

// panicsFirst is an asker that panics as often as fails says.
type panicsFirst struct {
	asker
	fails *atomic.Int64
}

func (p panicsFirst) ask(ctx context.Context, x *replica, q *query, t terms) (*wire.Response, error) {
	if p.fails.Add(-1) >= 0 {
		panic("a query")
	}
	return p.asker.ask(ctx, x, q, t)
}

// askedBy replaces a client's asker.
type askedBy struct {
	client
	fails *atomic.Int64
}

func (c askedBy) asker() asker { return panicsFirst{c.client.asker(), c.fails} }

// A panic while a query is sent, or while it is answered, costs the query only: the next one
// finds the server silent, and a better one good.
func TestSUR2_SUR6_QueriesThatPanic(t *testing.T) {
	eachAPI(t, func(t *testing.T, api APIType) {
		t.Helper()
		f := newFaulty(t)
		a, b := f.plane("a:1", api), f.plane("b:1", api)
		a.set("1", "x")
		b.set("1", "x", "second")
		store, caught := wanting(api, "x"), logs.NewPanics(nil, nil)
		u := f.upstream(api, nil, []string{"a:1"}, []string{"b:1"})
		session, err := u.NewSession(SessionConfig{Node: relayNode(), Scope: "shared", Store: store, Panics: caught})
		if err != nil {
			t.Fatal(err)
		}
		fails := new(atomic.Int64)
		r := session.source.(*remote)
		r.client = askedBy{r.client, fails}
		s := start(t, session)
		until(func() bool { return store.has("x") })
		store.holdsAll()
		fails.Store(2)
		if api != REST && until(func() bool { return fails.Load() < 0 }) >= 10*time.Minute { // polls need no queries
			t.Fatal("no query follows one that panicked")
		}
		if st := s.Status(); st.State != StateConnected || st.Lost > 0 {
			t.Errorf("after the panics: %+v", st)
		}
		fails.Store(1)
		a.mute.Store(true)
		until(func() bool { return store.has("second") })
		fails.Store(1) // in the probe of the better one
		a.mute.Store(false)
		if took := until(func() bool { return s.Status().Endpoint == "passthrough:///a:1" || s.Status().Endpoint == "a:1" }); took >= 10*time.Minute {
			t.Errorf("never back: %+v", s.Status())
		}
	})
}

// owing has a session at two servers that the test speaks for, the first of which was asked for clusters once. That stream
// ended, and the next one began without versions: an answer is owed. Another scope's stream is good, so that there is no outage.
func owing(t *testing.T) (a, b *server, s *running, obs *recorder) {
	t.Helper()
	n := newNetwork(t)
	a, b = n.serve("a"), n.serve("b")
	cfg := n.config("a", "b")
	cfg.Keepalive.Response = 0
	u := newUpstream(t, cfg)
	answered := func(store *memStore, obs Observer) (*running, *serverStream) {
		s := run(t, u, store, obs)
		ss := a.accept()
		ss.next()
		ss.respond(clusters, "1", "c")
		ss.answer()
		return s, ss
	}
	obs = &recorder{}
	answered(newStore(sub(clusters, "*")), nil)
	store := newStore(sub(clusters, "*"))
	s, first := answered(store, obs)
	time.Sleep(stableAfter)
	store.get(func(s *memStore) { clear(s.versions) })
	first.end <- status.Error(codes.Unavailable, "as the test says")
	if got := a.accept().next(); len(got.GetInitialResourceVersions()) > 0 {
		t.Fatalf("it presents %v", got)
	}
	return a, b, s, obs
}

// An answer that is owed and missing is asked for once on a fresh stream. If it comes there the server has lost the stream,
// which begins anew.
func TestFreshStreamAnswers_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, s, obs := owing(t)
		owed := time.Now()
		fresh := a.accept()
		if got := fresh.opened.Sub(owed); got != DefaultResponseTimeout {
			t.Errorf("a fresh stream after %v", got)
		}
		fresh.next()
		fresh.respond(clusters, "1", "c")
		again := a.accept()
		again.next()
		again.respond(clusters, "2", "c")
		again.answer()
		synctest.Wait()
		if got := again.opened.Sub(fresh.opened); got > 0 {
			t.Errorf("the stream begins anew after %v", got)
		}
		connected(t, s)
		obs.locked(func() {
			if len(obs.silent)+len(obs.moves) > 0 {
				t.Errorf("silent %v, moves %v", obs.silent, obs.moves)
			}
		})
	})
}

// If the fresh stream fails, as with a proxy whose server is gone, the answer is asked for again later.
func TestFreshStreamFails_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, s, _ := owing(t)
		failed := a.accept()
		failed.next()
		failed.end <- status.Error(codes.Unavailable, "no healthy upstream")
		fresh := a.accept()
		if got := fresh.opened.Sub(failed.opened); got != DefaultResponseTimeout {
			t.Errorf("another fresh stream after %v", got)
		}
		fresh.next()
		fresh.respond(clusters, "1", "c")
		again := a.accept()
		again.next()
		again.respond(clusters, "2", "c")
		again.answer()
		synctest.Wait()
		if got := again.opened.Sub(fresh.opened); got > 0 {
			t.Errorf("the stream begins anew after %v", got)
		}
		connected(t, s)
	})
}

// If it does not come there, the next endpoint is asked, and serves once it answered.
func TestNextEndpointAnswers_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, s, obs := owing(t)
		owed := time.Now()
		a.accept().next()
		asked := b.accept()
		if got := asked.opened.Sub(owed); got != 2*DefaultResponseTimeout {
			t.Errorf("the next endpoint is asked after %v", got)
		}
		asked.next()
		if st := s.Status(); st.EndpointChanges > 0 {
			t.Errorf("moved before it answered: %+v", st)
		}
		asked.respond(clusters, "1", "c")
		for range 2 { // both scopes leave
			ss := b.accept()
			ss.next()
			ss.respond(clusters, "2", "c")
			ss.answer()
		}
		synctest.Wait()
		connected(t, s)
		obs.locked(func() {
			if len(obs.silent) != 1 || len(obs.moves) != 1 {
				t.Errorf("silent %v, moves %v", obs.silent, obs.moves)
			}
		})
	})
}

// A server that takes one stream of a node only is sent no query: the next endpoint is asked at once.
func TestNextEndpointWithoutQuery_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, s, _ := owing(t)
		owed, of := time.Now(), &s.source.(*remote).failback.replica.answers
		of.mu.Lock()
		of.ends = maxEnds
		of.mu.Unlock()
		asked := b.accept()
		if got := asked.opened.Sub(owed); got != DefaultResponseTimeout || len(a.streams) > 0 {
			t.Errorf("the next endpoint is asked after %v, and the server itself on %d streams", got, len(a.streams))
		}
		asked.next()
		asked.respond(clusters, "1", "c")
		for range 2 { // both scopes leave
			ss := b.accept()
			ss.next()
			ss.respond(clusters, "2", "c")
			ss.answer()
		}
		synctest.Wait()
		connected(t, s)
		if st := s.Status(); st.EndpointChanges != 1 {
			t.Errorf("it has not moved: %+v", st)
		}
	})
}

// What no endpoint answers counts against none: the stream stays where it is.
func TestNobodyAnswers_SUR2_SUR8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, s, obs := owing(t)
		opened := s.Status().Opened
		time.Sleep(unansweredPause)
		if st := s.Status(); st.Opened != opened || st.EndpointChanges > 0 || st.State != StateConnected {
			t.Errorf("after ten minutes: %+v", st)
		}
		obs.locked(func() {
			if len(obs.silent) > 0 {
				t.Errorf("silent %v", obs.silent)
			}
		})
	})
}

// What no endpoint answers, while the server answers other scopes, counts against none either: it may be lost.
func TestOthersAreAnswered_SUR2_SUR8(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, _, s, obs := owing(t)
		a.accept().next()
		r := s.source.(*remote)
		r.up.heard(r.failback.replica, time.Now().Add(time.Second))
		opened := s.Status().Opened
		time.Sleep(time.Minute)
		if st := s.Status(); st.Opened != opened || st.EndpointChanges > 0 || st.State != StateConnected {
			t.Errorf("a minute later: %+v", st)
		}
		obs.locked(func() {
			if len(obs.silent) > 0 {
				t.Errorf("silent %v", obs.silent)
			}
		})
	})
}

// A server that says nothing is asked once a minute, whatever the number of scopes, and not while nobody waits.
func TestOneQueryAMinute_SUR2(t *testing.T) {
	for _, api := range APITypes() {
		t.Run(string(api), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFaulty(t)
				a := f.plane("a:1", api)
				a.set("1", "x")
				u := f.upstream(api, nil, []string{"a:1"})
				var stores []*memStore
				for range 20 {
					store := wanting(api, "x")
					stores = append(stores, store)
					run(t, u, store, nil)
					until(func() bool { return store.has("x") })
				}
				time.Sleep(time.Minute)
				before := a.asked.Load()
				time.Sleep(10 * time.Minute)
				if got := a.asked.Load() - before; got < 9 || got > 11 {
					t.Errorf("%d queries in ten minutes", got)
				}
				for _, store := range stores {
					store.leave()
				}
				time.Sleep(time.Minute) // for one that is due
				before = a.asked.Load()
				time.Sleep(10 * time.Minute)
				if got := a.asked.Load() - before; got > 0 {
					t.Errorf("%d queries for nobody", got)
				}
			})
		})
	}
}

// A server that answers something else while a query is open is well: what the query asks for may be lost.
func TestAnswersSomethingElse_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.serve("a"), n.serve("b")
		cfg := n.config("a", "b")
		cfg.Keepalive.Response = 0
		store, obs := newStore(sub(clusters, "*")), &recorder{}
		s := run(t, newUpstream(t, cfg), store, obs)
		ss := a.accept()
		ss.next()
		ss.respond(clusters, "1", "c")
		ss.answer()
		for range 3 {
			a.accept().next()
			time.Sleep(DefaultResponseTimeout / 2)
			ss.respond(clusters, "2", "d")
			ss.answer()
		}
		if st := s.Status(); st.Opened != 1 || len(b.streams) > 0 {
			t.Errorf("%+v, and %d streams to the next endpoint", st, len(b.streams))
		}
	})
}

// deliverBoth answers requests for clusters and endpoints.
func (ss *serverStream) deliverBoth() {
	ss.t.Helper()
	for range 2 {
		ss.next()
	}
	ss.respond(clusters, "1", "c")
	ss.respond(endpoints, "1", "e")
	for range 2 {
		ss.answer()
	}
}

// A server that falls mute is left although what it is asked for first is lost at the next endpoint too: both are asked for
// something else at once.
func TestLostAtBoth_SUR2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.serve("a"), n.serve("b")
		cfg := n.config("a", "b")
		cfg.Keepalive.Response = 0
		obs := &recorder{}
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "*"), sub(endpoints, "e")), obs)
		ss := a.accept()
		ss.deliverBoth()
		begun := time.Now()
		lost := a.accept().next()
		b.accept().next() // it says nothing either
		if known := a.accept().next(); known.GetTypeUrl() == lost.GetTypeUrl() {
			t.Errorf("%s is asked for again, which none answers", known.GetTypeUrl())
		}
		asked := b.accept()
		known := asked.next()
		asked.respond(known.GetTypeUrl(), "1", known.GetResourceNamesSubscribe()...)
		b.accept()
		synctest.Wait()
		if st, took := s.Status(), time.Since(begun); st.Endpoint != "passthrough:///b" || took > quietTime+4*DefaultResponseTimeout {
			t.Errorf("after %v: %+v", took, st)
		}
		obs.locked(func() {
			if len(obs.silent) != 1 {
				t.Errorf("silent %v", obs.silent)
			}
		})
	})
}

// A better endpoint that says nothing to a query is not silent if the session's own says nothing to it either: what it asks
// for may be lost. It is asked for something else next, and returned to.
func TestLostInAProbe_SUR2_LOC6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		b := n.serve("b")
		cfg := n.config("a", "b")
		cfg.Keepalive.Response = 0
		u, obs := newUpstream(t, cfg), &recorder{}
		s := run(t, u, newStore(sub(clusters, "*"), sub(endpoints, "e")), obs)
		ss := b.accept()
		ss.deliverBoth()
		a := n.serve("a")
		lost := a.accept().next()
		if again := b.accept().next(); again.GetTypeUrl() != lost.GetTypeUrl() {
			t.Errorf("the session's own endpoint is asked for %s, the better one for %s", again.GetTypeUrl(), lost.GetTypeUrl())
		}
		probe := a.accept()
		known := probe.next()
		if known.GetTypeUrl() == lost.GetTypeUrl() {
			t.Errorf("%s is asked for again, which none answers", known.GetTypeUrl())
		}
		probe.respond(known.GetTypeUrl(), "1", known.GetResourceNamesSubscribe()...)
		a.accept()
		synctest.Wait()
		if st := s.Status(); st.Endpoint != "passthrough:///a" {
			t.Errorf("it has not returned: %+v", st)
		}
		obs.locked(func() {
			if len(obs.silent) > 0 || len(obs.moves) != 2 {
				t.Errorf("silent %v, moves %v", obs.silent, obs.moves)
			}
		})
	})
}

// A session of which the only thing that was delivered is lost asks the better endpoint for what it began with.
func TestOnlyLostInAProbe_SUR2_LOC6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		b := n.serve("b")
		cfg := n.config("a", "b")
		cfg.Keepalive.Response = 0
		s := run(t, newUpstream(t, cfg), newStore(sub(clusters, "c"), sub(endpoints, "e")), nil)
		ss := b.accept()
		for range 2 {
			ss.next()
		}
		ss.respond(endpoints, "1", "e")
		ss.answer()
		a := n.serve("a")
		lost := a.accept().next()
		b.accept() // which does not answer for that either
		probe := a.accept()
		if got := probe.next(); lost.GetTypeUrl() != endpoints || got.GetTypeUrl() != clusters {
			t.Errorf("asked for is %s, and then %s", lost.GetTypeUrl(), got.GetTypeUrl())
		}
		probe.respond(clusters, "1", "c")
		a.accept()
		synctest.Wait()
		if st := s.Status(); st.Endpoint != "passthrough:///a" {
			t.Errorf("it has not returned: %+v", st)
		}
	})
}
