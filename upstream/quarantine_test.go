package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/controlplane"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	unserved = "type.googleapis.com/test.Unserved"
	other    = "type.googleapis.com/test.Other"
)

// maxChurn is how many streams ten minutes with bad types may cost. The delays add
// up to ten minutes after about twelve; with full jitter it may be some more.
const maxChurn = 30

// picky is a server that ends a stream on which a bad type is asked for, as
// go-control-plane does, says nothing about silent ones, and answers the rest.
type picky struct {
	*server

	mu      sync.Mutex
	bad     map[string]error
	silent  map[string]bool
	streams int
	asked   map[string][]asked
}

// asked is a request that subscribes or unsubscribes.
type asked struct {
	at     time.Time
	stream int
	req    *discoveryv3.DeltaDiscoveryRequest
}

func (n *network) picky(host string, bad ...string) *picky {
	n.t.Helper()
	p := &picky{bad: map[string]error{}, silent: map[string]bool{}, asked: map[string][]asked{}}
	for _, typeURL := range bad {
		p.bad[typeURL] = status.Error(codes.Unknown, "no cache defined for key "+typeURL)
	}
	p.server = n.serve(host, func(s *server) { s.deaf = true })
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case ss := <-p.server.streams:
				wg.Go(func() { p.handle(ss) })
			case <-done:
				return
			}
		}
	})
	n.t.Cleanup(func() { close(done); p.stop(); wg.Wait() })
	return p
}

func (p *picky) handle(ss *serverStream) {
	p.mu.Lock()
	p.streams++
	stream := p.streams
	p.mu.Unlock()
	for nonce := 1; ; nonce++ {
		req, err := ss.Recv()
		if err != nil {
			return
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		typeURL := req.GetTypeUrl()
		p.mu.Lock()
		p.asked[typeURL] = append(p.asked[typeURL], asked{time.Now(), stream, req})
		refused, silent := p.bad[typeURL], p.silent[typeURL]
		p.mu.Unlock()
		if refused != nil {
			ss.end <- refused
			return
		}
		if !silent {
			// It fails where the stream is over, of which Recv tells.
			_ = ss.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: fmt.Sprint(nonce)})
		}
	}
}

// serveType has the server take a type from now on, or end streams for it.
func (p *picky) serveType(typeURL string, refused error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bad[typeURL] = refused; refused == nil {
		delete(p.bad, typeURL)
	}
}

// requests are those for a type so far.
func (p *picky) requests(typeURL string) []asked {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.asked[typeURL])
}

func (p *picky) opened() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.streams
}

// quarantined waits until these types are, and no others. One that is tried just now is not.
func quarantined(t *testing.T, s *running, want ...string) {
	t.Helper()
	for range 10 {
		synctest.Wait()
		if slices.Equal(s.Status().Quarantined, want) {
			return
		}
		<-time.After(time.Second)
	}
	t.Errorf("quarantined %v, want %v", s.Status().Quarantined, want)
}

// connected waits for the stream, which may have been lost to a trial just now.
func connected(t *testing.T, s *running) {
	t.Helper()
	for range 10 {
		if s.Status().State == StateConnected {
			return
		}
		<-time.After(time.Second)
	}
	t.Errorf("status %+v, want connected", s.Status())
}

// growing checks the times between trials of a type, the first of which was none:
// none passes its bound, which doubles up to limit.
func growing(t *testing.T, tries []asked, limit time.Duration) {
	t.Helper()
	if len(tries) < 6 {
		t.Fatalf("tried %d times", len(tries))
	}
	for i := range tries[1:] {
		// Beside the delay there is that of the stream, and of what it needs to be established, and a trial
		// beside keeps its place.
		bound := min(limit, DefaultBackoffBase<<min(i, 20)) + DefaultBackoffBase + time.Second + stableAfter
		if gap := tries[i+1].at.Sub(tries[i].at); gap > bound {
			t.Errorf("trial %d came after %v, want at most %v", i+1, gap, bound)
		}
	}
	if early := tries[5].at.Sub(tries[0].at); early > 2*time.Minute {
		t.Errorf("five trials took %v", early)
	}
}

// One client that asks for a type that the control plane does not serve takes
// nothing from the others of the scope (OPS-2, invariant 4), and gets what it asked
// for when it is served.
func TestOPS2UnservedTypeIsQuarantined(t *testing.T) {
	t.Log("invariant 4")
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store := newStore(sub(clusters, "*"), sub(endpoints, "e"), sub(unserved, "a", "b"))
		s := run(t, newUpstream(t, n.config("a")), store, nil)

		<-time.After(20 * time.Second)
		quarantined(t, s, unserved)
		if types := appliedTypes(store); !types[clusters] || !types[endpoints] || types[unserved] {
			t.Errorf("the store was given %v", types)
		}
		<-time.After(10 * time.Minute)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		growing(t, srv.requests(unserved), maxTrialDelay)
		connected(t, s)

		// What changes while the type is withheld is not said, and not lost.
		before := len(srv.requests(unserved))
		srv.serveType(unserved, nil)
		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "e"), sub(unserved, "b", "c")},
			wire.Subscription{TypeURL: unserved, Subscribe: []string{"c"}, Unsubscribe: []string{"a"}})
		<-time.After(maxTrialDelay + time.Minute)
		quarantined(t, s)
		got := srv.requests(unserved)[before:]
		if len(got) < 2 || got[0].stream == got[1].stream {
			t.Fatalf("asked %v once it was served, want a trial beside first", got)
		}
		if got = got[1:]; len(got) != 1 || !slices.Equal(got[0].req.GetResourceNamesSubscribe(), []string{"b", "c"}) ||
			len(got[0].req.GetResourceNamesUnsubscribe()) > 0 {
			t.Errorf("asked %v once it was served, want b and c", got)
		}
		if !appliedTypes(store)[unserved] {
			t.Error("no response for the type that is served now")
		}

		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(unserved, "c")}, unsub(unserved, "b"))
		<-time.After(time.Second)
		if got = srv.requests(unserved)[before+1:]; len(got) != 2 || !slices.Equal(got[1].req.GetResourceNamesUnsubscribe(), []string{"b"}) {
			t.Errorf("asked %v, want b to be let go", got)
		}
	})
}

func appliedTypes(store *memStore) map[string]bool {
	types := map[string]bool{}
	store.get(func(s *memStore) {
		for _, r := range s.applied {
			types[r.TypeURL] = true
		}
	})
	return types
}

// Many bad types cost the stream that others use once, and beside it so many streams at a time
// (OPS-2, LIM-2, invariant 4). A good one among them is found.
func TestOPS2ManyUnservedTypes_LIM2(t *testing.T) {
	for name, tt := range map[string]struct{ count, streams int }{
		"two":       {2, 2 * maxChurn},
		"a hundred": {100, int(10*time.Minute/stableAfter+1) * mostBeside},
	} {
		t.Run(name, func(t *testing.T) {
			count := tt.count
			synctest.Test(t, func(t *testing.T) {
				var bad []string
				wanted := []wire.Subscription{sub(clusters, "*"), sub(endpoints, "e")}
				for i := range count {
					bad = append(bad, fmt.Sprintf("%s%02d", unserved, i))
					wanted = append(wanted, sub(bad[i], "x"))
				}
				n := newNetwork(t)
				srv := n.picky("a", bad...)
				store := newStore(wanted[:2]...)
				s := run(t, newUpstream(t, n.config("a")), store, nil)
				<-time.After(time.Second)
				store.want(0, wanted, wanted[2:]...)
				<-time.After(10 * time.Minute)
				quarantined(t, s, bad...)
				if got := srv.opened(); got > tt.streams {
					t.Errorf("%d streams in ten minutes, want at most %d", got, tt.streams)
				}
				if got := len(srv.requests(clusters)); got > 3 {
					t.Errorf("%d streams with what others want, want one, the one after the first end, and a question", got)
				}
				connected(t, s)
				if count > 2 {
					return
				}
				srv.serveType(bad[1], nil)
				<-time.After(maxTrialDelay + time.Minute)
				quarantined(t, s, bad[0])
				if !appliedTypes(store)[bad[1]] {
					t.Error("the type that is served now was not subscribed to")
				}
			})
		})
	}
}

// With nothing else wanted there is a stream for the trials alone, and it does not
// count as good. The delays stay below those of a server that refuses streams.
func TestOPS2OnlyAnUnservedType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store, obs := newStore(sub(unserved, "x")), &recorder{}
		s := run(t, newUpstream(t, n.config("a")), store, obs)
		<-time.After(10 * time.Minute)
		quarantined(t, s, unserved)
		if got := srv.opened(); got > 400 {
			t.Errorf("%d streams in ten minutes, want about 200", got)
		}
		tries := srv.requests(unserved)
		if len(tries) < 6 || tries[5].at.Sub(tries[0].at) > 2*time.Minute {
			t.Errorf("tried at %v", tries)
		}
		obs.locked(func() {
			if slices.Contains(obs.states, StateConnected) {
				t.Error("called connected")
			}
		})
		srv.serveType(unserved, nil)
		<-time.After(2*DefaultBackoffMax + time.Second)
		quarantined(t, s)
		if st := s.Status(); st.State != StateConnected || !appliedTypes(store)[unserved] {
			t.Errorf("status %+v, want connected with the type that is served now", st)
		}
	})
}

var errKilled = errors.New("killed")

// What ends every stream says nothing about types: nothing is withheld.
func TestOPS2RestartQuarantinesNothing(t *testing.T) {
	for name, end := range map[string]error{
		"unavailable":       status.Error(codes.Unavailable, "restarting"),
		"in order":          nil,
		"canceled":          status.Error(codes.Canceled, "context canceled"),
		"deadline exceeded": status.Error(codes.DeadlineExceeded, "max age"),
		"killed":            errKilled,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a")
				s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*"), sub(endpoints, "e")), nil)
				ss := srv.accept()
				ss.next()
				ss.next()
				if errors.Is(end, errKilled) {
					srv.stop()
					srv = n.serve("a")
				} else {
					ss.end <- end
				}
				ss = srv.accept()
				if a, b := ss.next(), ss.next(); a.GetTypeUrl() != clusters || b.GetTypeUrl() != endpoints {
					t.Errorf("asked for %s and %s", a.GetTypeUrl(), b.GetTypeUrl())
				}
				quarantined(t, s)
			})
		})
	}
}

// A type that was answered once is never withheld:
// if the server ends streams with it now, that is a loss like others. A type of no service that a stream only stood
// with is withheld (LIM-2).
func TestOPS2ProvenTypeIsNotWithheld_LIM2(t *testing.T) {
	for name, silent := range map[string]bool{"answered": false, "stood": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.picky("a")
				srv.silent[other] = silent
				s := run(t, newUpstream(t, n.config("a")), newStore(sub(other, "x")), nil)
				<-time.After(stableAfter)
				srv.serveType(other, status.Error(codes.Internal, "out of order"))
				srv.mu.Lock()
				streams := srv.streams
				srv.mu.Unlock()
				// The next request ends the stream.
				s.store.(*memStore).want(0, []wire.Subscription{sub(other, "x", "y")}, sub(other, "y"))
				<-time.After(time.Minute)
				if silent {
					quarantined(t, s, other)
					return
				}
				quarantined(t, s)
				if got, lost := len(srv.requests(other))-2, srv.opened()-streams; lost < 3 || got != lost {
					t.Errorf("asked %d times on %d streams", got, lost)
				}
			})
		})
	}
}

// A trial that the server does not answer, but lives with, is won as well.
func TestOPS2SilentTypeIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		srv.silent[other] = true
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*"), sub(other, "x"), sub(unserved, "y")), nil)
		<-time.After(10 * time.Millisecond)
		quarantined(t, s, other, unserved)
		<-time.After(time.Minute)
		quarantined(t, s, unserved)
		if got := srv.requests(other); got[len(got)-1].stream < 2 {
			t.Errorf("asked %v, want it on a later stream", got)
		}
	})
}

// A trial during which the connection breaks neither fails nor is won: it is
// repeated soon.
func TestOPS2TrialCutShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		store := newStore(sub(other, "x"))
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		ss := srv.accept()
		ss.next()
		ss.end <- status.Error(codes.Unknown, "no cache")
		for range 20 {
			ss = srv.accept()
			start := time.Now()
			ss.next()
			if took := time.Since(start); took > DefaultBackoffBase {
				t.Fatalf("tried after %v", took)
			}
			quarantined(t, s, other)
			ss.end <- status.Error(codes.Unavailable, "restarting")
		}
		ss = srv.accept()
		ss.next()
		// What changes meanwhile is part of the trial.
		store.want(0, []wire.Subscription{sub(other, "x", "y")}, sub(other, "y"))
		if req := ss.next(); !slices.Equal(req.GetResourceNamesSubscribe(), []string{"y"}) {
			t.Errorf("asked %v during the trial, want y", req)
		}
		ss.respond(other, "1", "x")
		ss.answer()
		quarantined(t, s)
	})
}

// A type that is wanted on both streams is tried on one of them, and then
// subscribed to on both (SUB-12).
func TestOPS2SUB12QuarantineCoversBothStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store := newStore(sub(clusters, "*"), sub(unserved, "*"))
		store.wanted[streamOf(1)] = []wire.Subscription{sub(clusters, "c"), sub(unserved, "x")}
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(10 * time.Minute)
		quarantined(t, s, unserved)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		before := len(srv.requests(unserved))
		srv.serveType(unserved, nil)
		<-time.After(maxTrialDelay + time.Minute)
		quarantined(t, s)
		var names []string
		for _, a := range srv.requests(unserved)[before:] {
			names = append(names, wants(a.req)...)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"*", "*", "x"}) && !slices.Equal(names, []string{"*", "x", "x"}) {
			t.Errorf("asked for %v, want each stream's once, behind the trial", names)
		}
	})
}

// A type that nobody wants any more is not tried, and forgotten after a while;
// asking for it in turns does not get round the delays.
func TestOPS2UnwantedSuspectIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		wanted := []wire.Subscription{sub(clusters, "*")}
		store := newStore(wanted...)
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		for range 600 {
			store.want(0, append(wanted, sub(unserved, "x")), sub(unserved, "x"))
			<-time.After(time.Second / 2)
			store.want(0, wanted, unsub(unserved, "x"))
			<-time.After(time.Second / 2)
		}
		quarantined(t, s, unserved)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		before := len(srv.requests(unserved))
		<-time.After(2*maxTrialDelay + time.Second)
		quarantined(t, s)
		if got := len(srv.requests(unserved)); got != before {
			t.Errorf("tried %d times while nobody wanted it", got-before)
		}
	})
}

// What is remembered of types is bounded, and those in use are kept.
func TestOPS2ProvenTypesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.picky("a")
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*")), nil)
		<-time.After(time.Second)
		s.events <- func() {
			c := s.client()
			for i := range 10 * maxProven {
				c.prove(fmt.Sprint(other, i))
			}
			if got := len(c.quarantine.proven); got > maxProven {
				t.Errorf("%d types", got)
			}
			if _, ok := c.quarantine.proven[clusters]; !ok {
				t.Error("a type in use was forgotten")
			}
		}
	})
}

// Against go-control-plane, whose linear caches are one per type.
func TestOPS2GoControlPlaneWithoutCache(t *testing.T) {
	cp := controlplane.New(clusters)
	if err := cp.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	if _, err := cp.UpdateResource("c", &clusterv3.Cluster{Name: "c"}); err != nil {
		t.Fatal(err)
	}
	store := newStore(sub(endpoints, "e"), sub(clusters, "*"))
	s := run(t, newUpstream(t, Config{Endpoints: [][]string{{cp.Addr()}}, Backoff: Backoff{Base: 10 * time.Millisecond}}), store, nil)
	eventually(t, "clusters beside a type that is not served", func() bool {
		return slices.Equal(store.names(clusters), []string{"c"}) && slices.Equal(s.Status().Quarantined, []string{endpoints})
	})
	st := s.Status()
	if st.LastError == nil || !strings.Contains(st.LastError.Error(), "no cache defined for key") {
		t.Errorf("last error %v", st.LastError)
	}
	// A change arrives in the pauses between trials.
	if _, err := cp.UpdateResource("d", &clusterv3.Cluster{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a change", func() bool { return slices.Contains(store.names(clusters), "d") })
}
