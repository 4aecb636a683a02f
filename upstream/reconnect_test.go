package upstream

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// While the server is gone the delays grow, the log has one line for it, and
// once it is back the next loss starts from the bottom.
func TestOPS2BackoffGrowsAndResets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		store, obs := newStore(sub(clusters, "*")), &recorder{}
		run(t, newUpstream(t, n.config("a")), store, obs)
		<-time.After(10 * time.Minute)
		obs.locked(func() {
			for i, d := range obs.delays {
				if bound := min(DefaultBackoffMax, DefaultBackoffBase<<min(i, 10)); d > bound {
					t.Errorf("attempt %d: delay %v, bound %v", i, d, bound)
				}
			}
			if got := len(obs.delays); got < 150 || got > 400 {
				t.Errorf("%d attempts in ten minutes, want about 240", got)
			}
			if slices.ContainsFunc(obs.failures, func(r Reason) bool { return r != ReasonUnreachable }) {
				t.Errorf("failures %v", obs.failures)
			}
			obs.delays = nil
		})
		srv := n.serve("a")
		ss := srv.accept()
		ss.respond(clusters, "1", "c")
		ss.answer()
		<-time.After(stableAfter)
		ss.end <- nil
		srv.accept()
		obs.locked(func() {
			if d := obs.delays[len(obs.delays)-1]; d > DefaultBackoffBase {
				t.Errorf("delay %v after a good stream", d)
			}
		})
	})
}

// A server that takes streams and ends them unanswered is no better than one
// that is gone.
func TestOPS2RefusedStreamsBackOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("a", func(s *server) { s.refuse = status.Error(codes.PermissionDenied, "who are you") })
		obs := &recorder{}
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), obs)
		<-time.After(10 * time.Minute)
		obs.locked(func() {
			if got := len(obs.opened); got < 150 || got > 400 {
				t.Errorf("%d streams in ten minutes, want about 240", got)
			}
			if slices.Contains(obs.states, StateConnected) {
				t.Error("called connected")
			}
			if obs.closed[0] != "ads denied" {
				t.Errorf("closed for %s", obs.closed[0])
			}
		})
		if st := s.Status(); st.State != StateConnecting || time.Since(st.Since) < 9*time.Minute {
			t.Errorf("status %+v, want connecting for ten minutes", st)
		}
	})
}

// A server that dies under many scopes is not met by all of them at once.
func TestOPS2NeverInStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const scopes = 100
		n := newNetwork(t)
		srv := n.serve("a")
		u := newUpstream(t, n.config("a"))
		for range scopes {
			run(t, u, newStore(sub(clusters, "*")), nil)
		}
		for range scopes {
			ss := srv.accept()
			ss.next()
			ss.respond(clusters, "1", "c")
			ss.answer()
		}
		synctest.Wait()
		if got := len(n.dialled("a")); got != scopes/streamsPerConn {
			t.Errorf("%d connections for %d scopes", got, scopes)
		}
		srv.stop()
		srv = n.serve("a")
		start := time.Now()
		slots := map[time.Duration]int{}
		for range scopes {
			slots[srv.accept().opened.Sub(start).Truncate(DefaultBackoffBase/20)]++
		}
		for at, got := range slots {
			if got > scopes/4 {
				t.Errorf("%d of %d streams came within %v, %v after the loss", got, scopes, DefaultBackoffBase/20, at)
			}
		}
	})
}

// An endpoint that refuses is passed over at once; one that swallows
// connections after the connect timeout, and later sessions know; the session
// goes back when the better one is there, and resumes (LOC-6).
func TestLOC6Failover(t *testing.T) {
	for name, tt := range map[string]struct {
		gone   func(n *network)
		within time.Duration
		reason Reason
	}{
		"refused":    {func(*network) {}, time.Millisecond, ReasonUnreachable},
		"black hole": {func(n *network) { n.blackHole("a") }, DefaultConnectTimeout, ReasonTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				tt.gone(n)
				b := n.serve("b")
				u := newUpstream(t, n.config("a", "b"))
				store, obs := newStore(sub(clusters, "*")), &recorder{}
				start := time.Now()
				s := run(t, u, store, obs)
				ss := b.accept()
				if got := time.Since(start); got > tt.within {
					t.Errorf("failed over after %v, want within %v", got, tt.within)
				}
				ss.respond(clusters, "1", "c")
				ss.answer()
				obs.locked(func() {
					if !slices.Equal(obs.failures, []Reason{tt.reason}) || !slices.Equal(obs.moves, []string{"passthrough:///a>passthrough:///b"}) {
						t.Errorf("failures %v, moves %v", obs.failures, obs.moves)
					}
				})

				later := time.Now()
				run(t, u, newStore(sub(clusters, "*")), nil)
				b.accept()
				if got := time.Since(later); got > time.Millisecond {
					t.Errorf("a later session needed %v", got)
				}

				<-time.After(10 * time.Minute)
				if s.Status().Opened != 1 {
					t.Error("the stream was given up for an endpoint that is gone")
				}
				back := time.Now()
				a := n.serve("a")
				// Both sessions, each in its time: a probe that was under way fails, and
				// the other session may take its word for it once.
				resumed := 0
				for range 2 {
					ss = a.accept()
					if got := time.Since(back); got > 2*DefaultFailbackInterval*5/4+DefaultConnectTimeout {
						t.Errorf("back after %v", got)
					}
					if ss.next().GetInitialResourceVersions()["c"] == "v1" {
						resumed++
					}
					ss.respond(clusters, "2", "c")
					ss.answer()
				}
				if resumed != 1 {
					t.Errorf("RES-12: %d sessions resumed with what they had, want the one that had something", resumed)
				}
				synctest.Wait()
				if st := s.Status(); st.Endpoint != "passthrough:///a" || st.State != StateConnected || st.Streams != 1 || st.Lost != 0 {
					t.Errorf("status %+v", st)
				}
				store.get(func(s *memStore) {
					if s.restarts[streamOf(0)] != 2 || s.lost[streamOf(0)] != 1 {
						t.Errorf("%d restarts, %d losses", s.restarts[streamOf(0)], s.lost[streamOf(0)])
					}
				})
			})
		})
	}
}

// Probing costs the network the same for a hundred scopes as for a few.
func TestLOC6ProbesAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("b")
		u := newUpstream(t, n.config("a", "b"))
		for range 100 {
			run(t, u, newStore(sub(clusters, "*")), nil)
		}
		synctest.Wait()
		before := len(n.dialled("a"))
		<-time.After(10 * DefaultFailbackInterval)
		if got := len(n.dialled("a")) - before; got < 8 || got > 25 {
			t.Errorf("%d probes in ten intervals, want about 20 at the most", got)
		}
	})
}

// With every endpoint gone each gets its turn without a wait, and there is one
// back-off for the round.
func TestLOC6AllGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		obs := &recorder{}
		run(t, newUpstream(t, n.config("a", "b", "c")), newStore(sub(clusters, "*")), obs)
		synctest.Wait()
		obs.locked(func() {
			if len(obs.failures) != 3 || len(obs.delays) != 1 {
				t.Errorf("%d failures, delays %v; want 3 and 1", len(obs.failures), obs.delays)
			}
		})
		b := n.serve("b")
		ss := b.accept()
		ss.respond(clusters, "1", "c")
		ss.answer()
		// A good stream that breaks is tried again where it was.
		ss.end <- nil
		b.accept()
		<-time.After(time.Hour)
		obs.locked(func() {
			if len(obs.opened) != 2 {
				t.Errorf("opened %v", obs.opened)
			}
		})
	})
}

// Both streams go along when the session moves, and each is restarted.
func TestLOC6BothStreamsMove(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		a, b := n.serve("a"), n.serve("b")
		store := newStore(sub(clusters, "*"))
		store.wanted[streamOf(1)] = []wireSubscription{sub(clusters, "c")}
		s := run(t, newUpstream(t, n.config("a", "b")), store, nil)
		good := func(srv *server) {
			for range 2 {
				ss := srv.accept()
				ss.respond(clusters, "1", "c")
				ss.answer()
			}
		}
		good(a)
		a.stop()
		good(b)
		a = n.serve("a")
		good(a)
		synctest.Wait()
		store.get(func(s *memStore) {
			if !maps.Equal(s.restarts, counts(3, 3)) || !maps.Equal(s.lost, counts(2, 2)) {
				t.Errorf("restarts %v, losses %v", s.restarts, s.lost)
			}
		})
		if st := s.Status(); st.State != StateConnected || st.Streams != 2 || st.EndpointChanges != 2 {
			t.Errorf("status %+v", st)
		}
	})
}

// An endpoint that takes connections but no streams does not have the session
// leave a good stream for it every half a minute.
func TestLOC6FailbackIsDamped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.serve("a", func(s *server) { s.refuse = status.Error(codes.Unavailable, "draining") })
		b := n.serve("b")
		obs := &recorder{}
		run(t, newUpstream(t, n.config("a", "b")), newStore(sub(clusters, "*")), obs)
		stop := time.After(2 * time.Hour)
		visits := 0
		for {
			select {
			case ss := <-b.streams:
				visits++
				ss.respond(clusters, "1", "c")
				continue
			case <-stop:
			}
			break
		}
		// 30 s, 1, 2, 4 minutes and then every 8 give or take a quarter.
		if visits < 12 || visits > 25 {
			t.Errorf("%d streams in two hours, want about 18", visits)
		}
		// The good streams in between keep the way back from each visit short.
		obs.locked(func() {
			if i := slices.IndexFunc(obs.delays, func(d time.Duration) bool { return d > DefaultBackoffBase }); i >= 0 {
				t.Errorf("delays %v", obs.delays)
			}
		})
	})
}

// A server at its limit of streams leaves a further one waiting without a word;
// that is over after the connect timeout, and the stream that stands stays.
func TestConnectTimeoutAtStreamLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a", func(s *server) { s.opts = append(s.opts, grpc.MaxConcurrentStreams(1)) })
		u, obs := newUpstream(t, n.config("a")), &recorder{}
		first := run(t, u, newStore(sub(clusters, "*")), nil)
		ss := srv.accept()
		second := run(t, u, newStore(sub(clusters, "*")), obs)
		<-time.After(DefaultConnectTimeout + time.Millisecond)
		obs.locked(func() {
			if !slices.Equal(obs.failures, []Reason{ReasonTimeout}) {
				t.Errorf("failures %v", obs.failures)
			}
		})
		if st := second.Status(); st.LastError == nil || st.LastError.Reason != ReasonTimeout || st.Lost != 0 {
			t.Errorf("status %+v", st)
		}
		if ss.Context().Err() != nil {
			t.Error("the first stream was lost")
		}
		_ = first.stop()
		srv.accept() // now there is room
	})
}

func TestReasons(t *testing.T) {
	all := Reasons()
	slices.Sort(all)
	if len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("a reason twice in %v", all)
	}
	for _, tt := range []struct {
		err  error
		want Reason
	}{
		{status.Error(codes.Unavailable, ""), ReasonUnavailable},
		{status.Error(codes.ResourceExhausted, ""), ReasonExhausted},
		{status.Error(codes.Unauthenticated, ""), ReasonDenied},
		{status.Error(codes.Internal, ""), ReasonError},
		{errConnectTimeout, ReasonTimeout},
		{fmt.Errorf("%w: %w", errNoToken, status.Error(codes.PermissionDenied, "")), ReasonNoToken},
	} {
		if got := reasonOf(tt.err, true); got != tt.want || !slices.Contains(all, got) {
			t.Errorf("reasonOf(%v) = %s", tt.err, got)
		}
	}
}
