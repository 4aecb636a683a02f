package upstream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/credentials"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	virtualHosts = "type.googleapis.com/envoy.config.route.v3.VirtualHost"
	secrets      = "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.Secret"
)

// bed is a real store with one client, whom tests make want things.
type bed struct {
	cache.Session

	Store *cache.Store

	t      *testing.T
	client *delivery.Place
	stream *delivery.Subscriber
}

func newBed(t *testing.T, source cache.Source) *bed {
	t.Helper()
	store := cache.New(cache.Limits{}, nil).Open(source)
	b := &bed{t: t, Store: store, Session: store.Session()}
	b.stream = delivery.NewSubscriber(func() {}, delivery.Form{})
	b.client = b.stream.Join(b.Store)
	return b
}

func (b *bed) want(typeURL string, names ...string) {
	b.client.Update(&delivery.Change{TypeURL: typeURL, Subscribe: namesOf(names)})
}

func (b *bed) unwant(typeURL string, names ...string) {
	b.client.Update(&delivery.Change{TypeURL: typeURL, Unsubscribe: namesOf(names)})
}

func namesOf(names []string) []cache.Name {
	var out []cache.Name
	for _, n := range names {
		out = append(out, cache.Name{Spelling: n, Key: n})
	}
	return out
}

// expect compares what is cached of a type: "+present", "-absent", "?unknown".
func (b *bed) expect(typeURL string, want ...string) {
	b.t.Helper()
	var got []string
	for _, info := range b.Store.Resources(typeURL, "") {
		got = append(got, map[string]string{"present": "+", "absent": "-", "unknown": "?", "failed": "!"}[info.State]+info.Name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Errorf("cached: %v, want %v", got, want)
	}
	if err := b.Store.Check(); err != nil {
		b.t.Error(err)
	}
}

// restServer answers polls as the test says.
type restServer struct {
	mu     sync.Mutex
	polls  []*discoveryv3.DiscoveryRequest
	at     []time.Time
	answer func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest)
}

func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	poll := new(discoveryv3.DiscoveryRequest)
	if err := protojson.Unmarshal(body, poll); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	s.mu.Lock()
	s.polls, s.at = append(s.polls, poll), append(s.at, time.Now())
	answer := s.answer
	s.mu.Unlock()
	answer(w, r, poll)
}

func (s *restServer) says(answer func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answer = answer
}

// polled copies the polls so far.
func (s *restServer) polled() []*discoveryv3.DiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.polls)
}

// holding answers with these names, and 304 to who presents the version.
func holding(version, typeURL string, names ...string) func(http.ResponseWriter, *http.Request, *discoveryv3.DiscoveryRequest) {
	field := "name"
	if typeURL == endpoints {
		field = "clusterName"
	}
	return func(w http.ResponseWriter, _ *http.Request, poll *discoveryv3.DiscoveryRequest) {
		if poll.GetVersionInfo() == version {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		var resources []string
		for _, n := range names {
			resources = append(resources, fmt.Sprintf(`{"@type": %q, %q: %q}`, typeURL, field, n))
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"versionInfo": %q, "nonce": "n", "resources": [%s]}`, version, strings.Join(resources, ","))
	}
}

// status answers with an HTTP status.
func statusOf(code int) func(http.ResponseWriter, *http.Request, *discoveryv3.DiscoveryRequest) {
	return func(w http.ResponseWriter, _ *http.Request, _ *discoveryv3.DiscoveryRequest) { w.WriteHeader(code) }
}

// hang answers nobody.
func hang(_ http.ResponseWriter, r *http.Request, _ *discoveryv3.DiscoveryRequest) {
	<-r.Context().Done()
}

// serveREST puts a server at a host of the network.
func (n *network) serveREST(host string, s *restServer) (stop func()) {
	n.t.Helper()
	lis := bufconn.Listen(1 << 20)
	n.mu.Lock()
	n.hosts[host] = lis
	n.mu.Unlock()
	h := &http.Server{Handler: s, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = h.Serve(lis)
	}()
	stop = sync.OnceFunc(func() {
		n.mu.Lock()
		if n.hosts[host] == lis {
			delete(n.hosts, host)
		}
		n.mu.Unlock()
		_ = h.Close()
		<-done
	})
	n.t.Cleanup(stop)
	return stop
}

// noNames knows no name: hosts are dialled by their names.
type noNames struct{}

func (noNames) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return nil, errors.New("no such host")
}

// dialTCP is dial for what dials any network.
func (n *network) dialTCP(ctx context.Context, _, host string) (net.Conn, error) {
	return n.dial(ctx, host)
}

// restRun is a REST session that runs until the test ends.
type restRun struct {
	*Session
	obs  *recorder
	stop func()
}

func (r *restRun) up() *Upstream { return r.source.(*remote).up }

func runREST(t *testing.T, n *network, store Store, hosts ...string) *restRun {
	t.Helper()
	cfg := Config{APIType: REST, Keepalive: Keepalive{Response: -1}, Name: "rest", Dial: Dial{Resolver: noNames{}}}
	for _, h := range hosts {
		cfg.Endpoints = append(cfg.Endpoints, []string{h})
	}
	u, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	u.transport.(*web).tcp = n.dialTCP
	obs := &recorder{}
	s, err := u.NewSession(SessionConfig{Node: &corev3.Node{Id: "relay"}, Scope: "scope", Store: store, Observer: obs})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	r := &restRun{s, obs, sync.OnceFunc(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("Run ended with %v", err)
		}
		u.Close()
	})}
	t.Cleanup(r.stop)
	return r
}

func restSource() cache.Source {
	full := make(map[string]bool)
	full[clusters] = true
	return cache.Source{FullState: full, State: true, PerType: true, Quiet: 15 * time.Second, Absent: 15 * time.Second}
}

func pass(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// askingOn has a client ask for one more name every four seconds of a server that has
// nothing, and takes so long to say it. Each is absent when its time has come, however
// often the session looks.
func askingOn(n *network, srv *restServer, b *bed, latency, absentAfter time.Duration) {
	srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
		select {
		case <-time.After(latency):
			holding(fmt.Sprint(len(poll.GetResourceNames())), endpoints)(w, r, poll)
		case <-r.Context().Done():
		}
	})
	r := runREST(b.t, n, b, "a:1")
	r.events <- func() { r.up().cfg.Poll.AbsentAfter = absentAfter }
	for i := range 10 {
		b.want(endpoints, fmt.Sprint("name-", i))
		for range 40 {
			pass(100 * time.Millisecond)
			r.events <- r.settle
		}
	}
	synctest.Wait()
	var want []string
	for i := range 10 {
		state := "!"
		if time.Duration(10-i)*4*time.Second <= restSource().Absent {
			state = "?"
		}
		want = append(want, fmt.Sprint(state, "name-", i))
	}
	b.expect(endpoints, want...)
}

// The cache follows what polls bring, whatever goes wrong between them.
func TestREST3(t *testing.T) {
	for name, f := range map[string]func(n *network, srv *restServer, b *bed){
		"REST-3 polls keep their interval with jitter, and present the version": func(n *network, srv *restServer, b *bed) {
			srv.says(holding("1", clusters, "a"))
			b.want(clusters, "*")
			r := runREST(b.t, n, b, "a:1")
			pass(10 * time.Minute)
			b.expect(clusters, "+a")
			polls := srv.polled()
			if polls[0].GetVersionInfo() != "" || len(polls[0].GetResourceNames()) != 0 || polls[0].GetNode().GetId() != "relay" {
				b.t.Errorf("the first poll is %v", polls[0])
			}
			seen := make(map[time.Duration]bool)
			for i := 1; i < len(polls); i++ {
				d := srv.at[i].Sub(srv.at[i-1])
				seen[d] = true
				if d < DefaultPollInterval*3/4 || d > DefaultPollInterval*5/4 || polls[i].GetVersionInfo() != "1" {
					b.t.Fatalf("poll %d after %v: %v", i, d, polls[i])
				}
			}
			if len(seen) < 10 {
				b.t.Errorf("only %d different intervals", len(seen))
			}
			if st := r.Status(); st.State != StateConnected || st.Streams != 1 || st.Acks != 1 || st.Responses != 1 || st.Requests != uint64(len(polls)) {
				b.t.Errorf("status %+v", st)
			}
		},
		"REST-3 ACK-4 an outage keeps the cache, backs off, and ends with everything asked anew": func(n *network, srv *restServer, b *bed) {
			stop := n.serveREST("a:1", srv)
			srv.says(holding("1", clusters, "a", "b"))
			b.want(clusters, "*")
			r := runREST(b.t, n, b, "a:1")
			pass(time.Second)
			stop()
			pass(time.Hour)
			b.expect(clusters, "+a", "+b")
			st := r.Status()
			if st.State != StateConnecting || st.LastError.Reason != ReasonUnreachable || st.Lost != 1 {
				b.t.Errorf("during the outage: %+v", st)
			}
			if got := len(n.dialled("a:1")); got < 1000 || got > 2500 {
				b.t.Errorf("%d attempts in an hour", got)
			}
			srv.says(holding("1", clusters, "b", "c"))
			n.serveREST("a:1", srv)
			pass(time.Minute)
			b.expect(clusters, "+b", "+c")
			if got := r.Status().State; got != StateConnected {
				b.t.Errorf("state %s", got)
			}
		},
		"RES-7 a name that is not answered has an error after its time, RES-8 one that was stays": func(n *network, srv *restServer, b *bed) {
			srv.says(holding("1", endpoints, "a"))
			b.want(endpoints, "a", "b")
			runREST(b.t, n, b, "a:1")
			pass(14 * time.Second)
			b.expect(endpoints, "+a", "?b")
			pass(2 * time.Second)
			b.expect(endpoints, "!b", "+a")
			srv.says(holding("2", endpoints, "b"))
			pass(time.Minute)
			b.expect(endpoints, "+a", "+b")
		},
		"RES-7 no name has an error because a poll hangs": func(n *network, srv *restServer, b *bed) {
			// Of another type answers come all the while.
			hanging := func(answer func(http.ResponseWriter, *http.Request, *discoveryv3.DiscoveryRequest)) {
				srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
					if poll.GetTypeUrl() == clusters {
						holding("1", clusters, "c")(w, r, poll)
						return
					}
					answer(w, r, poll)
				})
			}
			hanging(holding("1", endpoints, "a"))
			b.want(endpoints, "a")
			b.want(clusters, "*")
			r := runREST(b.t, n, b, "a:1")
			pass(time.Second)
			hanging(hang)
			b.want(endpoints, "b")
			pass(10 * time.Minute)
			b.expect(endpoints, "+a", "?b")
			if st := r.Status(); st.LastError == nil || st.LastError.Reason != ReasonTimeout {
				b.t.Errorf("last error %v, want a timeout", st.LastError)
			}
			hanging(holding("1", endpoints, "a"))
			pass(3 * time.Minute)
			b.expect(endpoints, "!b", "+a")
		},
		"RES-7 names that are asked for later start no clock anew": func(n *network, srv *restServer, b *bed) {
			askingOn(n, srv, b, 500*time.Millisecond, 0)
		},
		"RES-7 nor do they with a server that is slow": func(n *network, srv *restServer, b *bed) {
			askingOn(n, srv, b, 3*time.Second, restSource().Absent)
		},
		"RES-7 nothing is absent before its server was heard, however long that may take": func(n *network, srv *restServer, b *bed) {
			r := runREST(b.t, n, b, "a:1")
			r.events <- func() { r.up().cfg.Poll.AbsentAfter = restSource().Absent }
			srv.says(holding("1", endpoints, "a"))
			b.want(endpoints, "a")
			pass(time.Second)
			srv.says(hang)
			b.want(endpoints, "b")
			for range 50 {
				pass(time.Second)
				r.events <- r.settle
			}
			b.expect(endpoints, "+a", "?b")
		},
		"TTL-5 what is not to be kept is asked for again for whoever comes later": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, _ *http.Request, poll *discoveryv3.DiscoveryRequest) {
				if poll.GetVersionInfo() == "1" {
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = fmt.Fprintf(w, `{"versionInfo": "1", "resources": [{"@type": %q, "name": "a", "cacheControl": {"doNotCache": true}, "resource": {"@type": %q, "clusterName": "a"}}]}`,
					wire.ResourceTypeURL, endpoints)
			})
			all := delivery.Pace{Acks: func(string) delivery.Acks { return delivery.Acknowledged }, Size: 1 << 20, Parts: 8, ListHold: time.Hour}
			b.want(endpoints, "a")
			runREST(b.t, n, b, "a:1")
			pass(time.Second)
			if batches, _, err := b.stream.Collect(&all); err != nil || len(batches) != 1 || batches[0].Body.Resources() != 1 {
				b.t.Fatalf("the first client is sent %v (%v)", batches, err)
			}
			late := delivery.NewSubscriber(func() {}, delivery.Form{})
			b.t.Cleanup(late.Leave)
			late.Join(b.Store).Update(&delivery.Change{TypeURL: endpoints, Subscribe: namesOf([]string{"a"})})
			pass(time.Minute)
			if batches, _, err := late.Collect(&all); err != nil || len(batches) != 1 || batches[0].Body.Resources() != 1 {
				b.t.Fatalf("the second client is sent %v (%v)", batches, err)
			}
		},
		"TTL-2 RES-7 a poll that hangs stops neither a ttl nor the clocks of other types": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				switch {
				case poll.GetTypeUrl() == endpoints:
					hang(w, r, poll)
				case poll.GetVersionInfo() == "1":
					w.WriteHeader(http.StatusNotModified)
				default:
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w, `{"versionInfo": "1", "resources": [{"@type": %q, "name": "a", "ttl": "5s", "resource": {"@type": %q, "name": "a"}}]}`,
						wire.ResourceTypeURL, secrets)
				}
			})
			b.want(secrets, "a", "b")
			b.want(endpoints, "e")
			runREST(b.t, n, b, "a:1")
			pass(time.Second)
			b.expect(secrets, "+a", "?b")
			pass(5 * time.Second)
			b.expect(secrets, "-a", "?b")
			pass(12 * time.Second)
			b.expect(secrets, "!b", "-a")
			pass(time.Minute)
			b.expect(endpoints, "?e")
		},
		"SUB-12 wildcard and names have polls of their own": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				if len(poll.GetResourceNames()) == 0 {
					holding("1", clusters, "a")(w, r, poll)
					return
				}
				holding("1", clusters, poll.GetResourceNames()...)(w, r, poll)
			})
			b.want(clusters, "*", "x")
			runREST(b.t, n, b, "a:1")
			pass(time.Second)
			b.expect(clusters, "+a", "+x")
		},
		"ACK-6 what is rejected is told with the next poll, once, and the version before it": func(n *network, srv *restServer, b *bed) {
			srv.says(holding("1", clusters, "a"))
			b.want(clusters, "*")
			r := runREST(b.t, n, b, "a:1")
			pass(time.Second)
			srv.says(holding("2", clusters, "b", "b"))
			pass(20 * time.Second)
			b.expect(clusters, "+a")
			last := srv.polled()[len(srv.polled())-1]
			if last.GetVersionInfo() != "1" || last.GetResponseNonce() != "n" || !strings.Contains(last.GetErrorDetail().GetMessage(), "occurs twice") {
				b.t.Errorf("the NACK is %v", last)
			}
			st := r.Status()
			if st.Nacks == 0 || st.LastRejection == nil || st.State != StateConnected {
				b.t.Errorf("status %+v", st)
			}
		},
		"VAR-5 a type without a path, one that is not served, and one of which there is nothing": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				switch poll.GetTypeUrl() {
				case clusters:
					holding("1", clusters, "a")(w, r, poll)
				case endpoints:
					statusOf(http.StatusNotFound)(w, r, poll)
				default:
					statusOf(http.StatusNotModified)(w, r, poll)
				}
			})
			b.want(clusters, "*")
			b.want(endpoints, "x")
			b.want(virtualHosts, "a/b")
			b.want("type.googleapis.com/envoy.config.listener.v3.Listener", "*")
			r := runREST(b.t, n, b, "a:1", "b:1")
			pass(time.Minute)
			b.expect(clusters, "+a")
			b.expect(endpoints, "?x")
			b.expect(virtualHosts, "?a/b")
			st := r.Status()
			if st.State != StateConnected || st.Endpoint != "a:1" {
				b.t.Errorf("LOC-6: one type that is not served made it %s at %s", st.State, st.Endpoint)
			}
			if !slices.Equal(sortedKeys(st.Refused), []string{endpoints}) || !slices.Equal(st.Unavailable, []string{virtualHosts}) {
				b.t.Errorf("refused %v, unavailable %v", st.Refused, st.Unavailable)
			}
			b.unwant(virtualHosts, "a/b")
			pass(time.Second)
		},
		"RES-7 a relay that knows nothing yet has not answered, another server has": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				w.Header().Set("Server", wire.RelayIdentifier+"1.0")
				statusOf(http.StatusNotModified)(w, r, poll)
			})
			list := delivery.NewSubscriber(func() {}, delivery.Form{State: true})
			b.t.Cleanup(list.Leave)
			list.Join(b.Store).Update(&delivery.Change{TypeURL: clusters, Subscribe: namesOf([]string{"*"})})
			all := delivery.Pace{Acks: func(string) delivery.Acks { return delivery.Acknowledged }, Size: 1 << 20, Parts: 8, ListHold: time.Hour}
			lists := func(want int) {
				b.t.Helper()
				pass(30 * time.Second)
				if batches, _, err := list.Collect(&all); err != nil || len(batches) != want {
					b.t.Errorf("the client is sent %v (%v), want %d empty lists", batches, err, want)
				}
			}
			runREST(b.t, n, b, "a:1")
			lists(0)
			srv.says(statusOf(http.StatusNotModified))
			lists(1)
		},
		"RES-7 ABS-3 a name that a relay does not know is not waited for any longer": func(n *network, srv *restServer, b *bed) {
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				<-time.After(5 * time.Second) // it waits for its own control plane
				w.Header().Set("Server", wire.RelayIdentifier+"1.0")
				statusOf(http.StatusNotModified)(w, r, poll)
			})
			b.want(endpoints, "a")
			runREST(b.t, n, b, "a:1")
			pass(15 * time.Second)
			b.expect(endpoints, "?a")
			pass(10 * time.Second)
			b.expect(endpoints, "!a")
		},
		"UPS-2 one poll is tried at a time, and the others follow": func(n *network, srv *restServer, b *bed) {
			stop := n.serveREST("a:1", srv)
			srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
				holding("1", poll.GetTypeUrl(), "a")(w, r, poll)
			})
			types := []string{clusters, endpoints, listeners}
			for _, typeURL := range types {
				b.want(typeURL, "a")
			}
			r := runREST(b.t, n, b, "a:1")
			pass(time.Minute)
			stop()
			pass(time.Minute)
			before := len(n.dialled("a:1"))
			pass(time.Hour)
			if got := len(n.dialled("a:1")) - before; got < 1000 || got > 2500 {
				b.t.Errorf("%d attempts for %d types in an hour", got, len(types))
			}
			n.serveREST("a:1", srv)
			pass(time.Minute)
			if st := r.Status(); st.State != StateConnected || st.Streams != len(types) {
				b.t.Errorf("state %s, %d polls", st.State, st.Streams)
			}
		},
		"UPS-2 what nobody waits for is not polled for again": func(n *network, srv *restServer, b *bed) {
			stop := n.serveREST("a:1", srv)
			srv.says(holding("1", endpoints, "a"))
			b.want(endpoints, "a")
			r := runREST(b.t, n, b, "a:1")
			pass(time.Minute)
			b.stream.Leave()
			stop()
			pass(time.Minute)
			n.serveREST("a:1", srv)
			before := len(srv.polled())
			pass(time.Hour)
			if got := len(srv.polled()) - before; got > 0 || r.Status().State != StateIdle {
				b.t.Errorf("%d polls, %s", got, r.Status().State)
			}
			b.stream.Join(b.Store)
			pass(time.Second)
			if got := len(srv.polled()) - before; got == 0 || r.Status().State != StateConnected {
				b.t.Errorf("%d polls, %s", got, r.Status().State)
			}
		},
		"UPS-3 first names are polled for at once, those that follow together": func(n *network, srv *restServer, b *bed) {
			srv.says(holding("1", endpoints))
			runREST(b.t, n, b, "a:1")
			asked := func(when string, want ...string) {
				b.t.Helper()
				pass(time.Microsecond) // the poller looks at its names in a moment
				polls := srv.polled()
				var last []string
				if len(polls) > 0 {
					last = polls[len(polls)-1].GetResourceNames()
				}
				if !slices.Equal(last, want) {
					b.t.Errorf("%s: asked for %v, want %v", when, last, want)
				}
			}
			b.want(endpoints, "a")
			asked("the first name", "a")
			b.want(endpoints, "b")
			b.want(endpoints, "c")
			asked("within the batch time", "a")
			pass(DefaultBatch)
			asked("after it", "a", "b", "c")
			if got := len(srv.polled()); got != 2 {
				b.t.Errorf("%d polls, want 2", got)
			}
			pass(DefaultBatch)
			b.want(endpoints, "d")
			asked("after a pause", "a", "b", "c", "d")
		},
		"nothing is polled that nobody wants": func(n *network, srv *restServer, b *bed) {
			srv.says(holding("1", clusters, "a"))
			b.want(clusters, "a")
			r := runREST(b.t, n, b, "a:1")
			pass(time.Minute)
			srv.says(holding("2", clusters))
			pass(time.Minute)
			b.expect(clusters, "-a")
			b.unwant(clusters, "a") // what is absent is let go of at once
			pass(time.Second)
			before := len(srv.polled())
			pass(time.Hour)
			if got := len(srv.polled()) - before; got > 0 || r.Status().State != StateIdle {
				b.t.Errorf("%d polls, state %s", got, r.Status().State)
			}
			b.want(clusters, "b")
			pass(time.Minute)
			b.expect(clusters, "!b")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, srv := newNetwork(t), &restServer{}
				n.serveREST("a:1", srv)
				f(n, srv, newBed(t, restSource()))
			})
		})
	}
}

// An endpoint that cannot be reached, or fails, is left for the next one at once; the
// better one is taken again when it is back.
func TestLOC6RESTFailover(t *testing.T) {
	for name, fail := range map[string]func(n *network, stop func(), srv *restServer){
		"unreachable":  func(_ *network, stop func(), _ *restServer) { stop() },
		"black hole":   func(n *network, stop func(), _ *restServer) { stop(); n.blackHole("a:1") },
		"out of order": func(_ *network, _ func(), srv *restServer) { srv.says(statusOf(http.StatusServiceUnavailable)) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n, first, second := newNetwork(t), &restServer{}, &restServer{}
				stop := n.serveREST("a:1", first)
				n.serveREST("b:1", second)
				first.says(holding("1", clusters, "a"))
				second.says(holding("1", clusters, "b"))
				b := newBed(t, restSource())
				b.want(clusters, "*")
				r := runREST(t, n, b, "a:1", "b:1")
				pass(time.Second)
				b.expect(clusters, "+a")
				fail(n, stop, first)
				pass(time.Minute)
				b.expect(clusters, "+b") // the same version, and other contents
				if st := r.Status(); st.Endpoint != "b:1" && name != "out of order" {
					t.Errorf("at %s", st.Endpoint)
				}
				first.says(holding("1", clusters, "a"))
				n.serveREST("a:1", first)
				pass(20 * DefaultFailbackInterval)
				b.expect(clusters, "+a")
				if st := r.Status(); st.Endpoint != "a:1" || st.State != StateConnected || st.EndpointChanges < 2 {
					t.Errorf("after the return: %s at %s after %d changes", st.State, st.Endpoint, st.EndpointChanges)
				}
			})
		})
	}
}

// A request that would be too large loses the names that nobody watches.
func TestRES17RESTShed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, srv := newNetwork(t), &restServer{}
		srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
			holding(fmt.Sprint(len(poll.GetResourceNames())), endpoints, poll.GetResourceNames()...)(w, r, poll)
		})
		n.serveREST("a:1", srv)
		b := newBed(t, restSource())
		r := runREST(t, n, b, "a:1")
		r.up().cfg.MaxRequestSize = 200
		name := func(i int) string { return fmt.Sprintf("a-name-of-24-bytes-%05d", i) }
		for i := range 20 {
			b.want(endpoints, name(i))
			pass(time.Second)
			if i > 0 {
				b.unwant(endpoints, name(i-1))
			}
		}
		for _, poll := range srv.polled() {
			if got := len(poll.GetResourceNames()); got > 9 {
				t.Fatalf("a poll for %d names", got)
			}
		}
		pass(time.Minute)
		if got := b.Store.Resources(endpoints, name(19)); len(got) != 1 || got[0].State != "present" {
			t.Errorf("the name that is watched: %v", got)
		}
	})
}

// A name that was polled for, and has room again after another one stood in for it, is polled for again,
// by the same poller.
func TestRES17RESTStandIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 400
		n, srv := newNetwork(t), &restServer{}
		srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
			holding(fmt.Sprint(poll.GetResourceNames()), endpoints, poll.GetResourceNames()...)(w, r, poll)
		})
		n.serveREST("a:1", srv)
		b := newBed(t, restSource())
		r := runREST(t, n, b, "a:1")
		r.up().cfg.MaxRequestSize = limit
		large, fits := strings.Repeat("x", 2*limit), "fits"
		b.want(endpoints, fits)
		pass(time.Second)
		last := func() []string { return srv.polled()[len(srv.polled())-1].GetResourceNames() }
		b.want(endpoints, large)
		b.unwant(endpoints, fits)
		pass(5 * time.Second)
		if got := last(); !slices.Equal(got, []string{large}) {
			t.Fatalf("the poll is for %.20q, want the name that stands in", got)
		}
		b.want(endpoints, fits)
		pass(5 * time.Second)
		if got := last(); !slices.Equal(got, []string{fits}) {
			t.Errorf("RES-17: the poll is for %.20q, want the name that has room", got)
		}
		r.obs.locked(func() {
			if len(r.obs.closed) > 0 {
				t.Errorf("RES-17: the poller begins anew: %q", r.obs.closed)
			}
		})
	})
}

// A poll that would pass the limit although all names are watched leaves out the newest, and their clients are told so. They
// come in as soon as a client lets go of others, and not when these would have been idle for long enough.
func TestRES17RESTLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 400
		n, srv := newNetwork(t), &restServer{}
		srv.says(func(w http.ResponseWriter, r *http.Request, poll *discoveryv3.DiscoveryRequest) {
			holding(fmt.Sprint(len(poll.GetResourceNames())), endpoints, poll.GetResourceNames()...)(w, r, poll)
		})
		n.serveREST("a:1", srv)
		b := newBed(t, restSource())
		r := runREST(t, n, b, "a:1")
		r.up().cfg.MaxRequestSize = limit
		name := func(i int) string { return fmt.Sprintf("a-name-of-24-bytes-%05d", i) }
		var all []string
		for i := range 20 {
			all = append(all, name(i))
			b.want(endpoints, name(i))
			pass(time.Second)
		}
		state := func(name string) string { return b.Store.Resources(endpoints, name)[0].State }
		has := 0
		for _, poll := range srv.polled() {
			names := poll.GetResourceNames()
			if has = len(names); !slices.Equal(names, all[:has]) || has*len(name(0)) > limit {
				t.Errorf("a poll for %q", names)
			}
		}
		if has < 5 || has == 20 || state(name(has-1)) != "present" || state(name(has)) != "failed" {
			t.Errorf("%d names are asked for, the last is %s, the next is %s", has, state(name(has-1)), state(name(has)))
		}
		b.unwant(endpoints, name(1), name(2), name(3), name(4))
		pass(time.Minute)
		if state(name(has)) != "present" || state(name(19)) != "failed" {
			t.Errorf("after others went, the first that was left out is %s, the last %s", state(name(has)), state(name(19)))
		}
		b.unwant(endpoints, all...)
		b.want(endpoints, strings.Repeat("x", 2*limit)) // there is no poll for nothing
		pass(time.Minute)
		for _, poll := range srv.polled() {
			if len(poll.GetResourceNames()) == 0 {
				t.Fatal("a poll for everything")
			}
		}
		if err := b.Store.Check(); err != nil {
			t.Error(err)
		}
	})
}

func TestNewREST(t *testing.T) {
	for name, tt := range map[string]struct {
		cfg  Config
		want string
	}{
		"no endpoints":      {Config{}, "no endpoints"},
		"no port":           {Config{Endpoints: [][]string{{"a"}}}, "missing port"},
		"negative interval": {Config{Endpoints: [][]string{{"a:1"}}, Poll: Poll{Interval: -1}}, "poll interval is negative"},
		"TLS files":         {Config{Endpoints: [][]string{{"a:1"}}, TLS: &credentials.TLSClientConfig{CertFile: "x"}}, "needs a key"},
	} {
		t.Run(name, func(t *testing.T) {
			tt.cfg.Name = "x"
			tt.cfg.APIType = REST
			if u, err := New(tt.cfg); u != nil || err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), `upstream "x"`) {
				t.Errorf("New gave %v and %v, want %q", u, err, tt.want)
			}
		})
	}
	u, err := New(Config{APIType: REST, Endpoints: [][]string{{"a:1"}}, MaxRequestSize: 100, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	if _, err := u.NewSession(SessionConfig{}); err == nil || !strings.Contains(err.Error(), "needs a store") {
		t.Errorf("without a store: %v", err)
	}
	node := &corev3.Node{Id: strings.Repeat("n", 100)}
	if _, err := u.NewSession(SessionConfig{Store: newStore(), Node: node}); err == nil || !strings.Contains(err.Error(), "leaves too little") {
		t.Errorf("a large node: %v", err)
	}
}
