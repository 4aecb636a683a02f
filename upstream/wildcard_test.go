package upstream

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// The wildcard is asked for by a first request that names nothing, with the versions
// beside it when the stream resumes; what is named besides follows in a request of its own.
func TestSUB14EmptyFirstRequest(t *testing.T) {
	held := map[string]string{"a": "1", "b": "2"}
	for name, c := range map[string]struct {
		subs []wire.Subscription
		want []*discoveryv3.DeltaDiscoveryRequest
	}{
		"SUB-14 the wildcard alone": {
			[]wire.Subscription{sub(clusters, "*")},
			[]*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: clusters}},
		},
		"SUB-14 RES-12 on resuming": {
			[]wire.Subscription{{TypeURL: clusters, Subscribe: []string{"*"}, Versions: held}},
			[]*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: clusters, InitialResourceVersions: held}},
		},
		"SUB-14 names follow, and their versions nobody reads": {
			[]wire.Subscription{
				{TypeURL: clusters, Subscribe: []string{"*"}, Versions: map[string]string{"a": "1"}},
				{TypeURL: clusters, Subscribe: []string{"b"}, Versions: map[string]string{"b": "2"}},
			},
			[]*discoveryv3.DeltaDiscoveryRequest{
				{TypeUrl: clusters, InitialResourceVersions: map[string]string{"a": "1"}},
				{TypeUrl: clusters, ResourceNamesSubscribe: []string{"b"}},
			},
		},
		"SUB-14 both said at once": {
			[]wire.Subscription{{TypeURL: clusters, Subscribe: []string{"*", "b"}, Versions: held}},
			[]*discoveryv3.DeltaDiscoveryRequest{
				{TypeUrl: clusters, InitialResourceVersions: map[string]string{"a": "1"}},
				{TypeUrl: clusters, ResourceNamesSubscribe: []string{"b"}},
			},
		},
		"SUB-14 let go": {
			[]wire.Subscription{sub(clusters, "*"), unsub(clusters, "*")},
			[]*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: clusters}, {TypeUrl: clusters, ResourceNamesUnsubscribe: []string{"*"}}},
		},
		"SUB-14 each type has a first request": {
			[]wire.Subscription{sub(endpoints, "x"), sub(clusters, "*")},
			[]*discoveryv3.DeltaDiscoveryRequest{{TypeUrl: endpoints, ResourceNamesSubscribe: []string{"x"}}, {TypeUrl: clusters}},
		},
		"SUB-3 nothing is no request": {[]wire.Subscription{{TypeURL: clusters, Versions: held}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &deltaDialect{asked: make(map[string]struct{})}
			var got []request
			for _, s := range c.subs {
				got = append(got, d.subscribe(s, 0, 1<<20)...)
			}
			same := slices.EqualFunc(got, c.want, func(a request, b *discoveryv3.DeltaDiscoveryRequest) bool { return proto.Equal(a, b) })
			if !same {
				t.Errorf("requests %v, want %v", got, c.want)
			}
		})
	}
}

// written is how a request reads: its type is the first letter of c(lusters) or l(isteners).
func written(req *discoveryv3.DeltaDiscoveryRequest) string {
	switch {
	case req.GetResponseNonce() != "":
		return "ack"
	case len(req.GetResourceNamesSubscribe())+len(req.GetResourceNamesUnsubscribe()) == 0:
		return short(req.GetTypeUrl()) + " nothing"
	}
	return short(req.GetTypeUrl()) + " " + strings.Join(append(req.GetResourceNamesSubscribe(), req.GetResourceNamesUnsubscribe()...), " ")
}

func short(typeURL string) string {
	return strings.ToLower(typeURL[strings.LastIndexByte(typeURL, '.')+1:])
}

// asked expects the requests of a stream until a time has passed.
func (ss *serverStream) asked(within time.Duration, want ...string) {
	ss.t.Helper()
	<-time.After(within)
	synctest.Wait()
	var got []string
	for len(ss.reqs) > 0 {
		got = append(got, written(<-ss.reqs))
	}
	if !slices.Equal(got, want) {
		ss.t.Errorf("within %v the server was asked %q, want %q", within, got, want)
	}
}

// A server that does not know the wildcard's legacy form is asked for "*" after five seconds, and each stream
// after that at once (SUB-14).
func TestSUB14Explicit(t *testing.T) {
	type begin func(form WildcardForm, subs ...wire.Subscription) (*running, func() *serverStream)
	for name, play := range map[string]func(t *testing.T, run begin){
		"SUB-14 a server that answers the explicit form only": func(t *testing.T, run begin) {
			t.Helper()
			r, accept := run(WildcardAuto, sub(clusters, "*"))
			ss := accept()
			ss.asked(explicitAfter-1, "cluster nothing")
			ss.asked(1, "cluster *")
			if got := r.Status().Unanswered; !slices.Equal(got, []string{clusters}) {
				t.Errorf("unanswered: %q", got)
			}
			ss.respond(clusters, "0")
			ss.asked(time.Second, "ack")
			if got := r.Status().Unanswered; len(got) > 0 {
				t.Errorf("unanswered after an empty answer: %q", got)
			}
			ss.respond(clusters, "1", "a")
			ss.asked(time.Second, "ack")
			if got := r.Status().Unanswered; len(got) > 0 {
				t.Errorf("unanswered: %q", got)
			}
			ss.end <- status.Error(codes.Unavailable, "again")
			ss = accept()
			ss.asked(2*explicitAfter, "cluster nothing", "cluster *")
		},
		"SUB-14 a server that answers the legacy form of another type, and has nothing of this one": func(t *testing.T, run begin) {
			t.Helper()
			r, accept := run(WildcardAuto, sub(clusters, "*"), sub(listeners, "*"))
			ss := accept()
			ss.asked(time.Second, "cluster nothing", "listener nothing")
			ss.respond(clusters, "1")
			ss.asked(2*explicitAfter, "ack")
			if got := r.Status().Unanswered; !slices.Equal(got, []string{listeners}) {
				t.Errorf("unanswered: %q", got)
			}
		},
		"SUB-14 SUB-12 a server that answers a name on the same stream": func(t *testing.T, run begin) {
			t.Helper()
			r, accept := run(WildcardAuto, sub(clusters, "*"), sub(clusters, "n"))
			ss := accept()
			ss.asked(time.Second, "cluster nothing", "cluster n")
			ss.respond(clusters, "1", "n")
			ss.asked(explicitAfter, "ack", "cluster *")
			ss.respond(clusters, "2", "n")
			ss.asked(time.Second, "ack")
			if got := r.Status().Unanswered; !slices.Equal(got, []string{clusters}) {
				t.Errorf("unanswered: %q", got)
			}
			ss.respond(clusters, "3", "a", "n")
			ss.asked(time.Second, "ack")
			if got := r.Status().Unanswered; len(got) > 0 {
				t.Errorf("unanswered: %q", got)
			}
		},
		"SUB-14 a server that has nothing at all": func(_ *testing.T, run begin) {
			_, accept := run(WildcardAuto, sub(clusters, "*"))
			ss := accept()
			ss.asked(2*explicitAfter, "cluster nothing", "cluster *")
			ss.end <- status.Error(codes.Unavailable, "again")
			ss = accept()
			ss.asked(explicitAfter-1, "cluster nothing")
			ss.asked(1, "cluster *")
			ss.asked(time.Minute)
		},
		"SUB-14 a wildcard that is let go before": func(t *testing.T, run begin) {
			t.Helper()
			r, accept := run(WildcardAuto, sub(clusters, "*"), sub(endpoints, "e"))
			ss := accept()
			ss.asked(time.Second, "cluster nothing", "clusterloadassignment e")
			r.store.(*memStore).want(0, []wire.Subscription{sub(endpoints, "e")}, unsub(clusters, "*"))
			ss.asked(2*explicitAfter, "cluster *")
			if got := r.Status().Unanswered; len(got) > 0 {
				t.Errorf("unanswered: %q", got)
			}
		},
		"SUB-14 a wildcard that is let go unanswered": func(t *testing.T, run begin) {
			t.Helper()
			r, accept := run(WildcardAuto, sub(clusters, "*"), sub(endpoints, "e"))
			ss := accept()
			ss.asked(2*explicitAfter, "cluster nothing", "clusterloadassignment e", "cluster *")
			r.store.(*memStore).want(0, []wire.Subscription{sub(endpoints, "e")}, unsub(clusters, "*"))
			ss.asked(time.Second, "cluster *")
			if got := r.Status().Unanswered; len(got) > 0 {
				t.Errorf("unanswered: %q", got)
			}
		},
		"SUB-14 legacy": func(_ *testing.T, run begin) {
			_, accept := run(WildcardLegacy, sub(clusters, "*"))
			accept().asked(time.Minute, "cluster nothing")
		},
		"SUB-14 explicit": func(_ *testing.T, run begin) {
			_, accept := run(WildcardExplicit, sub(clusters, "*"))
			accept().asked(time.Minute, "cluster *")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serve("a")
				play(t, func(form WildcardForm, subs ...wire.Subscription) (*running, func() *serverStream) {
					cfg := n.config("a")
					cfg.Wildcard, cfg.Keepalive.Response = form, -1
					return run(t, newUpstream(t, cfg), newStore(subs...), nil), srv.accept
				})
			})
		})
	}
}

// takesOne is a server that answers what it is asked for on the first stream that came,
// and ends every other one as long as that is open.
type takesOne struct {
	*server

	mu     sync.Mutex
	open   bool
	asked  []string // on the stream that is open
	opened int
}

func (n *network) takesOne(host string) *takesOne {
	p := &takesOne{server: n.serve(host, func(s *server) { s.deaf = true })}
	var wg sync.WaitGroup
	done := make(chan struct{})
	wg.Go(func() {
		for {
			select {
			case ss := <-p.streams:
				if p.take() {
					wg.Go(func() { p.handle(ss) })
				} else {
					ss.end <- status.Error(codes.AlreadyExists, "this node has a stream")
				}
			case <-done:
				return
			}
		}
	})
	n.t.Cleanup(func() { close(done); p.stop(); wg.Wait() })
	return p
}

// take reports whether a stream may stay.
func (p *takesOne) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opened++
	if p.open {
		return false
	}
	p.open, p.asked = true, nil
	return true
}

func (p *takesOne) handle(ss *serverStream) {
	for nonce := 1; ; nonce++ {
		req, err := ss.Recv()
		if err != nil {
			p.mu.Lock()
			p.open = false
			p.mu.Unlock()
			return
		}
		if req.GetResponseNonce() != "" {
			continue
		}
		p.mu.Lock()
		p.asked = append(p.asked, wants(req)...)
		p.mu.Unlock()
		// It fails where the stream is over, of which Recv tells.
		_ = ss.Send(&discoveryv3.DeltaDiscoveryResponse{TypeUrl: req.GetTypeUrl(), Nonce: strconv.Itoa(nonce)})
	}
}

// Where the server takes no second stream the first one carries both: the wildcard asked
// for by an empty request, and the names in another. Which of the two the server took is
// a matter of chance (SUB-14).
func TestSUB14SecondStreamRefused(t *testing.T) {
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			n := newNetwork(t)
			srv := n.takesOne("a")
			store := newStore(sub(clusters, "*"))
			store.wanted[streamOf(1)] = []wire.Subscription{sub(clusters, "x")}
			s := run(t, newUpstream(t, n.config("a")), store, nil)
			<-time.After(time.Hour)
			if st := s.Status(); st.Streams != 1 || st.State != StateConnected || len(st.Refused) > 0 {
				t.Errorf("status %+v", st)
			}
			srv.mu.Lock()
			if want := []string{"*", "x"}; !slices.Equal(srv.asked, want) {
				t.Errorf("asked for %q, want %q", srv.asked, want)
			}
			// Before the server has answered on the one stream, the end of the other one shows
			// nothing. How often that is tried meanwhile depends on the delays.
			if srv.opened > 2*maxRejected+8 {
				t.Errorf("%d streams in an hour", srv.opened)
			}
			srv.mu.Unlock()
			_ = s.stop()
			store.get(func(m *memStore) {
				if want := []string{"ads true", "ads false"}; !slices.Equal(m.single, want) {
					t.Errorf("the store was told %q, want %q", m.single, want)
				}
			})
		})
	}
}
