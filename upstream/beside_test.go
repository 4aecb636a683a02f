package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
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
	late    time.Duration // after it a silent type ends its stream; 0: never
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
		refused, silent, late := p.bad[typeURL], p.silent[typeURL], p.late
		p.mu.Unlock()
		if refused != nil {
			ss.end <- refused
			return
		}
		if silent && late > 0 {
			time.AfterFunc(late, func() { ends(ss, codes.Unknown) })
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

// refused waits until these types are, and no others.
func refused(t *testing.T, s *running, want ...string) {
	t.Helper()
	for range 10 {
		synctest.Wait()
		if slices.Equal(sortedKeys(s.Status().Refused), want) {
			return
		}
		<-time.After(time.Second)
	}
	t.Errorf("refused %v, want %v", s.Status().Refused, want)
}

// connected waits for the stream, which may have been lost just now.
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

// growing checks the times between retries of a type, behind the first request:
// none passes its bound, which doubles up to limit.
func growing(t *testing.T, tries []asked, limit time.Duration) {
	t.Helper()
	if len(tries) < 6 {
		t.Fatalf("tried %d times", len(tries))
	}
	for i := range tries[1:] {
		// Beside the delay there is that of the stream, and of what it needs to be established, and a retry
		// keeps its place.
		bound := min(limit, DefaultBackoffBase<<min(i, 20)) + DefaultBackoffBase + time.Second + stableAfter
		if gap := tries[i+1].at.Sub(tries[i].at); gap > bound {
			t.Errorf("retry %d came after %v, want at most %v", i+1, gap, bound)
		}
	}
	if early := tries[5].at.Sub(tries[0].at); early > 2*time.Minute {
		t.Errorf("five retries took %v", early)
	}
}

// One client that asks for a type that the control plane does not serve takes
// nothing from the others of the scope (OPS-2, invariant 4), and gets what it asked
// for when it is served.
func TestOPS2UnservedTypeGoesBeside_LIM2(t *testing.T) {
	t.Log("invariant 4")
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store := newStore(sub(clusters, "*"), sub(endpoints, "e"), sub(unserved, "a", "b"))
		s := run(t, newUpstream(t, n.config("a")), store, nil)

		<-time.After(20 * time.Second)
		refused(t, s, unserved)
		if types := appliedTypes(store); !types[clusters] || !types[endpoints] || types[unserved] {
			t.Errorf("the store was given %v", types)
		}
		<-time.After(10 * time.Minute)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		growing(t, srv.requests(unserved), maxRetryPause)
		connected(t, s)

		if got := len(srv.requests(clusters)); got > 3 {
			t.Errorf("%d streams with what others want", got)
		}
		if reason := s.Status().Refused[unserved]; !strings.Contains(reason, "no cache defined for key") {
			t.Errorf("the reason is %q", reason)
		}

		// What changes while the type is kept aside is not said, and not lost.
		before := len(srv.requests(unserved))
		srv.serveType(unserved, nil)
		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "e"), sub(unserved, "b", "c")},
			wire.Subscription{TypeURL: unserved, Subscribe: []string{"c"}, Unsubscribe: []string{"a"}})
		<-time.After(maxRetryPause + time.Minute)
		refused(t, s)
		got := srv.requests(unserved)[before:]
		if len(got) < 2 || got[0].stream == got[1].stream {
			t.Fatalf("asked %v once it was served, want a retry beside first", got)
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
				refused(t, s, bad...)
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
				<-time.After(maxRetryPause + time.Minute)
				refused(t, s, bad[0])
				if !appliedTypes(store)[bad[1]] {
					t.Error("the type that is served now was not subscribed to")
				}
			})
		})
	}
}

// With nothing else wanted the type is asked for on the session's stream, which does not
// count as good. The delays stay below those of a server that refuses streams.
func TestOPS2OnlyAnUnservedType(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store, obs := newStore(sub(unserved, "x")), &recorder{}
		s := run(t, newUpstream(t, n.config("a")), store, obs)
		<-time.After(10 * time.Minute)
		refused(t, s, unserved)
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
		refused(t, s)
		if st := s.Status(); st.State != StateConnected || !appliedTypes(store)[unserved] {
			t.Errorf("status %+v, want connected with the type that is served now", st)
		}
	})
}

var errKilled = errors.New("killed")

// What ends every stream says nothing about types: all are asked for again on the stream.
func TestOPS2RestartRefusesNothing(t *testing.T) {
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
				refused(t, s)
			})
		})
	}
}

// A type that was answered once stays on the stream:
// if the server ends streams with it now, that is a loss like others. A type that a stream only stood
// with goes beside (LIM-2).
func TestOPS2AnsweredTypeStays_LIM2(t *testing.T) {
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
					refused(t, s, other)
					return
				}
				refused(t, s)
				if got, lost := len(srv.requests(other))-2, srv.opened()-streams; lost < 3 || got != lost {
					t.Errorf("asked %d times on %d streams", got, lost)
				}
			})
		})
	}
}

// A type that the server does not answer, but lets stand beside, joins the others.
func TestOPS2SilentTypeJoins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		srv.silent[other] = true
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*"), sub(other, "x"), sub(unserved, "y")), nil)
		<-time.After(10 * time.Millisecond)
		refused(t, s, other, unserved)
		<-time.After(renewPause + stableAfter)
		refused(t, s, unserved)
		if got := srv.requests(other); got[len(got)-1].stream < 2 {
			t.Errorf("asked %v, want it on a later stream", got)
		}
	})
}

// A type that is wanted on both streams is asked for beside once, and then
// subscribed to on both (SUB-12).
func TestOPS2SUB12RefusedTypeOfBothStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store := newStore(sub(clusters, "*"), sub(unserved, "*"))
		store.wanted[streamOf(1)] = []wire.Subscription{sub(clusters, "c"), sub(unserved, "x")}
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(10 * time.Minute)
		refused(t, s, unserved)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		before := len(srv.requests(unserved))
		srv.serveType(unserved, nil)
		<-time.After(maxRetryPause + time.Minute)
		refused(t, s)
		var names []string
		for _, a := range srv.requests(unserved)[before:] {
			names = append(names, wants(a.req)...)
		}
		slices.Sort(names)
		if !slices.Equal(names, []string{"*", "*", "x"}) && !slices.Equal(names, []string{"*", "x", "x"}) {
			t.Errorf("asked for %v, want each stream's once, behind the retry", names)
		}
	})
}

// A type that nobody wants any more is not asked for, and forgotten after a while;
// asking for it in turns does not get round the pauses.
func TestOPS2UnwantedTypeIsForgotten(t *testing.T) {
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
		refused(t, s, unserved)
		if got := srv.opened(); got > maxChurn {
			t.Errorf("%d streams in ten minutes, want at most %d", got, maxChurn)
		}
		before := len(srv.requests(unserved))
		<-time.After(2*maxRetryPause + time.Second)
		refused(t, s)
		if got := len(srv.requests(unserved)); got != before {
			t.Errorf("asked for %d times while nobody wanted it", got-before)
		}
	})
}

// Against go-control-plane, whose linear caches are one per type.
func TestOPS2GoControlPlaneWithoutCache(t *testing.T) {
	cp := gocontrolplane.New(clusters)
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
		return slices.Equal(store.names(clusters), []string{"c"}) && slices.Equal(sortedKeys(s.Status().Refused), []string{endpoints})
	})
	st := s.Status()
	if st.LastError == nil || !strings.Contains(st.LastError.Error(), "no cache defined for key") {
		t.Errorf("last error %v", st.LastError)
	}
	// A change arrives in the pauses between retries.
	if _, err := cp.UpdateResource("d", &clusterv3.Cluster{Name: "d"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a change", func() bool { return slices.Contains(store.names(clusters), "d") })
}

// A client that invents types takes the stream that others use from nobody: not where the server ends streams for
// them, and not where it is silent (LIM-2). At most so many are asked for at a time, beside.
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
						if got := s.client().besides.running; got > mostBeside {
							t.Errorf("%d types are asked for beside at a time", got)
						}
					}
				}
				if got := len(srv.requests(clusters)); got > 1 {
					t.Errorf("%d streams with what others want, want 1", got)
				}
				connected(t, s)
				<-time.After(2 * maxRetryPause)
				synctest.Wait()
				s.events <- func() {
					if b := &s.client().besides; kind == "ends the stream" && len(b.types) > 0 || b.running > 0 {
						t.Errorf("%d types and %d retries are left", len(b.types), b.running)
					}
				}
				synctest.Wait()
			})
		})
	}
}

// What an honest client asks for is taken up while another one invents types, if not at once.
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
		if got := len(srv.requests(clusters)); got > 1 {
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

// lonely is a server that takes one stream of a node: it refuses the second, or ends the first one for it with a status
// that is not OK. It ends streams for a bad type, too, and says nothing about endpoints.
func lonely(t *testing.T, srv *server, endsFirst codes.Code, streams func()) {
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
					if endsFirst == codes.OK {
						ends(ss, codes.AlreadyExists)
						continue
					}
					ends(first, endsFirst)
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
						case req.GetTypeUrl() == endpoints:
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

// A server that takes one stream of a node leaves types unanswered for which it ended the stream, or that no
// service is known of. They cost the stream that others use next to nothing, and are shown with the reason (LIM-2, SUR-8).
func TestServerThatTakesOneStream_LIM2_SUR8(t *testing.T) {
	for name, c := range map[string]struct {
		endsFirst codes.Code
		reason    string
	}{
		"it refuses the second": {codes.OK, "as the test says"},
		"it ends the first":     {codes.Aborted, oneStream},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a", func(s *server) { s.deaf = true })
				var began atomic.Int32
				lonely(t, srv, c.endsFirst, func() { began.Add(1) })
				wanted := []wire.Subscription{sub(clusters, "*"), sub(unserved, "x")}
				store := newStore(wanted[0])
				s := run(t, newUpstream(t, n.config("a")), store, nil)
				<-time.After(time.Second)
				store.want(0, wanted, wanted[1])
				<-time.After(2*unansweredPause - time.Minute)
				if got := began.Load(); got > 3 {
					t.Errorf("%d streams in twenty minutes, want at most one in ten, behind the first", got)
				}
				store.want(0, append(wanted, sub(other, "y")), sub(other, "y"))
				<-time.After(time.Second)
				refused(t, s, other, unserved)
				if reason := s.Status().Refused[other]; !strings.Contains(reason, c.reason) {
					t.Errorf("the reason is %q, want %q", reason, c.reason)
				}
				connected(t, s)
			})
		})
	}
}

// A server that takes one stream of a node ends the one that others use at most once a minute, also where that carries a type
// without an answer, so that it may have ended for this one (LIM-2).
func TestServerThatTakesOneStreamAndIsSilent_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a", func(s *server) { s.deaf = true })
		var mu sync.Mutex
		var began []time.Time
		lonely(t, srv, codes.Aborted, func() {
			mu.Lock()
			defer mu.Unlock()
			began = append(began, time.Now())
		})
		wanted := []wire.Subscription{sub(clusters, "*"), sub(endpoints, "e"), sub(unserved, "x")}
		store := newStore(wanted[:2]...)
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(time.Minute)
		store.want(0, wanted, wanted[2])
		<-time.After(unansweredPause)
		mu.Lock()
		defer mu.Unlock()
		if len(began) < 2 {
			t.Errorf("the server began %d streams: it ended none", len(began))
		}
		for i := range began[1:] {
			if gap := began[i+1].Sub(began[i]); gap < renewPause-time.Second {
				t.Errorf("stream %d came %v after the one before", i+1, gap)
			}
		}
		connected(t, s)
	})
}

// A server that ended a stream before it answered anything may have done so whatever the types: those that it may serve come
// to the next stream as soon as it answers there. So a server that takes one stream of a node serves all of them.
func TestServerThatEndsTheFirstStream_OPS2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serve("a")
		s := run(t, newUpstream(t, n.config("a")), newStore(sub(clusters, "*"), sub(listeners, "*"), sub(endpoints, "e")), nil)
		ss := srv.accept()
		ss.next()
		ss.next()
		ss.end <- status.Error(codes.Internal, "not ready")
		ss = srv.accept()
		if r := ss.next(); r.GetTypeUrl() != clusters {
			t.Errorf("asked for %s first", r.GetTypeUrl())
		}
		ss.respond(clusters, "1", "c")
		types := map[string]bool{ss.next().GetTypeUrl(): true, ss.next().GetTypeUrl(): true, ss.next().GetTypeUrl(): true}
		if !types[clusters] || !types[listeners] || !types[endpoints] {
			t.Errorf("asked for %v behind the answer", types)
		}
		refused(t, s)
		if got := len(srv.streams); got > 0 {
			t.Errorf("%d streams beside", got)
		}
	})
}

// Types that the server lets stand for a while and then ends the stream for take it at most once a minute, however
// many a client invents (LIM-2).
func TestTypesThatEndTheStreamLate_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a")
		wanted := []wire.Subscription{sub(clusters, "*")}
		for i := range 600 {
			srv.silent[invented(i)] = true
		}
		srv.late = 15 * time.Second
		store := newStore(wanted...)
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(time.Second)
		for i := range 600 {
			wanted = append(wanted, sub(invented(i), "x"))
			store.want(0, slices.Clone(wanted), sub(invented(i), "x"))
			<-time.After(time.Second)
		}
		asked := srv.requests(clusters)
		for i := range asked[1:] {
			if gap := asked[i+1].at.Sub(asked[i].at); i > 0 && gap < renewPause {
				t.Errorf("stream %d came %v after the one before", i+1, gap)
			}
		}
		if len(asked) < 3 {
			t.Errorf("%d streams: the server ended none", len(asked))
		}
		connected(t, s)
	})
}

// Of the types without an answer those that another scope has an answer of stay on the stream (LIM-2).
func TestTypeThatAnotherScopeHas_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.picky("a", unserved)
		u := newUpstream(t, n.config("a"))
		run(t, u, newStore(sub(clusters, "*"), sub(endpoints, "e")), nil)
		<-time.After(time.Second)
		store := newStore(sub(unserved, "x"), sub(endpoints, "e"))
		s := run(t, u, store, nil)
		<-time.After(10 * time.Millisecond)
		refused(t, s, unserved)
		s.events <- func() {
			if got := s.client().besides.types; len(got) != 1 {
				t.Errorf("%d types are kept aside, want one", len(got))
			}
		}
		<-time.After(time.Second)
		if !appliedTypes(store)[endpoints] {
			t.Error("no response for the type that is served")
		}
	})
}

// A session that takes over what another one had presents the versions that the Store holds, though the server ends
// its first stream for a type before it has answered any: without them the server would not say what it removed
// meanwhile.
func TestRES12VersionsOfTypesThatWereAside_OPS2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a", unserved)
		store := newStore(sub(unserved, "x"), sub(endpoints, "*"), sub(clusters, "*"))
		store.versions[clusters] = map[string]string{"c": "1"}
		store.versions[endpoints] = map[string]string{"e": "2"}
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(time.Minute)
		refused(t, s, unserved)
		for _, typeURL := range []string{clusters, endpoints} {
			for _, a := range srv.requests(typeURL) {
				if got := a.req.GetInitialResourceVersions(); len(got) != 1 {
					t.Errorf("stream %d: %s was asked for with the versions %v", a.stream, typeURL, got)
				}
			}
		}
	})
}

// A type that was kept aside and is let go of is waited for as any other when a client asks for it on the stream.
func TestRES7TypeThatIsAsideNoLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.picky("a")
		u := newUpstream(t, n.config("a"))
		store := newStore(sub(clusters, "*"))
		run(t, u, store, nil)
		<-time.After(time.Second)
		// Both come at once, so that nothing is asked for beside.
		store.want(0, []wire.Subscription{sub(clusters, "*")}, sub(other, "x"), unsub(other, "x"))
		<-time.After(time.Second)
		run(t, u, newStore(sub(other, "z")), nil) // its scope has an answer
		<-time.After(time.Second)
		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(other, "y")}, sub(other, "y"))
		<-time.After(time.Second)
		if got := srv.requests(other); len(got) != 2 || !slices.Equal(got[1].req.GetResourceNamesSubscribe(), []string{"y"}) {
			t.Fatalf("asked %v", got)
		}
		store.get(func(s *memStore) {
			if s.withheld[other] {
				t.Error("no clock runs for what was asked for")
			}
		})
	})
}

// A stream that asks for nothing, as all its types are kept aside, does not have the session count as cut off.
func TestStreamWithoutTypes_LIM2_OPS1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.picky("a", unserved)
		store := newStore(sub(clusters, "*"), sub(unserved, "*"))
		store.wanted[streamOf(1)] = []wire.Subscription{sub(unserved, "x")}
		s := run(t, newUpstream(t, n.config("a")), store, nil)
		<-time.After(time.Minute)
		refused(t, s, unserved)
		if st := s.Status(); st.State != StateConnected || st.Streams != 2 || !st.Freshness.Stale.IsZero() {
			t.Errorf("status %+v, want connected with two streams", st)
		}
	})
}

// A server that ends a stream, with a status that says nothing of types, for each new one of its node loses it to the types
// that a client invents at most once a minute (LIM-2).
func TestServerThatTakesTheNewestStream_LIM2(t *testing.T) {
	for _, code := range []codes.Code{codes.Canceled, codes.Unavailable} {
		t.Run(code.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a", func(s *server) { s.deaf = true })
				var began atomic.Int32
				lonely(t, srv, code, func() { began.Add(1) })
				wanted := []wire.Subscription{sub(clusters, "*")}
				store := newStore(wanted...)
				run(t, newUpstream(t, n.config("a")), store, nil)
				<-time.After(stableAfter)
				for i := range 300 {
					wanted = append(wanted, sub(invented(i), "x"))
					store.want(0, slices.Clone(wanted), sub(invented(i), "x"))
					<-time.After(time.Second)
				}
				if got := began.Load(); got < 2 || got > 7 {
					t.Errorf("%d streams in five minutes, want more than one and at most one a minute", got)
				}
			})
		})
	}
}
