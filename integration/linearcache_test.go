package integration

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// linearCache answers as go-control-plane's LinearCache before 0.14 does: a request gets what is newer than the
// version that it presents, of the names that it has, and a change goes to who asked for it, alone.
type linearCache struct {
	addr   string
	script plane.Script

	mu      sync.Mutex
	version int
	content map[string]map[string]linearResource // by type and name
	streams map[*linearStream]struct{}
}

type linearResource struct {
	version int
	payload *anypb.Any
}

type linearStream struct {
	stream plane.StateStream
	nonce  int
	types  map[string]*linearWatch
}

// linearWatch is the last request of a type.
type linearWatch struct {
	names []string
	nonce string
	open  bool // nothing was newer
}

func newLinearCache(t *testing.T) *linearCache {
	t.Helper()
	l := &linearCache{content: make(map[string]map[string]linearResource), streams: make(map[*linearStream]struct{})}
	l.script.State = l.serve
	lis := ports.Listen(t)
	l.start(t, lis)
	t.Cleanup(func() { l.script.Stop() })
	return l
}

func (l *linearCache) start(t *testing.T, lis net.Listener) {
	t.Helper()
	l.addr = lis.Addr().String()
	l.script.Serve(lis)
}

func (l *linearCache) serve(g plane.StateStream) error {
	s := &linearStream{stream: g, types: make(map[string]*linearWatch)}
	l.mu.Lock()
	l.streams[s] = struct{}{}
	l.mu.Unlock()
	defer func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.streams, s)
	}()
	for {
		r, err := g.Recv()
		if err != nil {
			return err
		}
		if err := l.request(s, r); err != nil {
			return err
		}
	}
}

func (l *linearCache) request(s *linearStream, r *discovery.DiscoveryRequest) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	w := s.types[r.GetTypeUrl()]
	switch {
	case w == nil:
		w = new(linearWatch)
		s.types[r.GetTypeUrl()] = w
	case w.nonce != r.GetResponseNonce():
		return nil // it is stale
	}
	w.names, w.open = r.GetResourceNames(), false
	newer := w.names
	if last, err := strconv.Atoi(r.GetVersionInfo()); err == nil {
		newer = nil
		for _, name := range w.names {
			if l.content[r.GetTypeUrl()][name].version > last {
				newer = append(newer, name)
			}
		}
		if len(newer) == 0 {
			w.open = true
			return nil
		}
	}
	return l.respond(s, r.GetTypeUrl(), newer)
}

func (l *linearCache) respond(s *linearStream, typeURL string, names []string) error {
	s.nonce++
	w := s.types[typeURL]
	w.nonce, w.open = strconv.Itoa(s.nonce), false
	r := &discovery.DiscoveryResponse{TypeUrl: typeURL, VersionInfo: strconv.Itoa(l.version), Nonce: w.nonce}
	for _, name := range names {
		if x, is := l.content[typeURL][name]; is {
			r.Resources = append(r.Resources, x.payload)
		}
	}
	return s.stream.Send(r)
}

// change sets resources of a type, each with a mark that tells its contents apart, and removes those with the mark "".
func (l *linearCache) change(typeURL string, marks map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.version++
	if l.content[typeURL] == nil {
		l.content[typeURL] = make(map[string]linearResource)
	}
	for name, mark := range marks {
		delete(l.content[typeURL], name)
		if mark != "" {
			l.content[typeURL][name] = linearResource{l.version, &anypb.Any{TypeUrl: typeURL, Value: contents(typeURL, name, mark, "")}}
		}
	}
	for s := range l.streams {
		w := s.types[typeURL]
		if w == nil || !w.open {
			continue
		}
		changed := slices.DeleteFunc(slices.Sorted(maps.Keys(marks)), func(name string) bool { return !slices.Contains(w.names, name) })
		if len(changed) > 0 {
			_ = l.respond(s, typeURL, changed) // the stream may have ended
		}
	}
}

// awaitWatches waits until all streams have acknowledged what they were sent: a removal before that is never told.
func (l *linearCache) awaitWatches(t *testing.T, typeURL string) {
	t.Helper()
	waitFor(t, "all is acknowledged", func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for s := range l.streams {
			if w := s.types[typeURL]; w != nil && !w.open {
				return false
			}
		}
		return true
	})
}

// overLinear runs a test with clients of each form directly at the server, where it has the form, and behind a relay.
func overLinear(t *testing.T, test func(t *testing.T, v variant, l *linearCache, client func(node string) *noted)) {
	t.Helper()
	for _, v := range []variant{sotwADS, sotw} {
		t.Run("direct, "+v.name, func(t *testing.T) {
			l := newLinearCache(t)
			test(t, v, l, func(node string) *noted { return startNoted(t, v, &testRelay{addr: l.addr}, node) })
		})
	}
	for _, up := range []config.APIType{config.AggregatedGRPC, config.GRPC} {
		for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
			t.Run(fmt.Sprintf("%s, relay, %s", up, v.name), func(t *testing.T) {
				l := newLinearCache(t)
				relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = up }, l.addr)
				test(t, v, l, func(node string) *noted { return startNoted(t, v, relay, node) })
				relay.consistent(t)
			})
		}
	}
}

// has waits until a client has a resource with a mark.
func (n *noted) has(t *testing.T, typeURL, name, mark string) {
	t.Helper()
	n.awaitContent(t, fmt.Sprintf("%s with %q", name, mark), typeURL, name, string(contents(typeURL, name, mark, "")))
}

// A server that answers with what is newer than the version presented does not answer a name that another client adds. It
// is asked for it on a stream of its own, and the one that there is stays.
func TestNamesOfOthers_RES7_SUR8_direct_relay(t *testing.T) {
	overLinear(t, func(t *testing.T, _ variant, l *linearCache, client func(node string) *noted) {
		t.Helper()
		l.change(endpointType, map[string]string{"c0": "1", "c1": "1", "c2": "1"})
		first := client("first")
		first.Subscribe(endpointType, "c0")
		first.has(t, endpointType, "c0", "1")
		second := client("second")
		second.Subscribe(endpointType, "c1", "none")
		second.has(t, endpointType, "c1", "1")
		third := client("third")
		third.Subscribe(endpointType, "c2")
		third.has(t, endpointType, "c2", "1")
		l.change(endpointType, map[string]string{"c1": "2"})
		second.has(t, endpointType, "c1", "2")
		l.change(endpointType, map[string]string{"none": "1"})
		second.has(t, endpointType, "none", "1")
	})
}

// holdsListeners checks what a client holds, after it was told of anything else that the server may have said.
func (n *noted) holdsListeners(t *testing.T, what string, want map[string]string) {
	t.Helper()
	for name, mark := range want {
		if mark == "" {
			n.await(t, what+": "+name+" is gone", func() bool { return n.content(listenerType, name) == "" })
			continue
		}
		n.awaitContent(t, what, listenerType, name, string(contents(listenerType, name, mark, "")))
	}
}

// wasRemoved reports whether a client was ever told that a name is gone.
func (n *noted) wasRemoved(name string) bool {
	for _, c := range n.since(0) {
		if c.name == name && c.kind == xdsclient.Removed {
			return true
		}
	}
	return false
}

// A list of named resources has what changed only. What it lacks stays, also with other clients, and what is gone goes.
func TestPartialLists_RES8_ADS3_direct_relay(t *testing.T) {
	overLinear(t, func(t *testing.T, v variant, l *linearCache, client func(node string) *noted) {
		t.Helper()
		l.change(listenerType, map[string]string{"a": "1", "b": "1", "c": "1"})
		first, second := client("first"), client("second")
		first.Subscribe(listenerType, "a")
		first.holdsListeners(t, "first", map[string]string{"a": "1"})
		second.Subscribe(listenerType, "b", "c")
		second.holdsListeners(t, "second", map[string]string{"b": "1", "c": "1"})
		for _, mark := range []string{"2", "3", "4"} {
			l.change(listenerType, map[string]string{"a": mark})
			first.holdsListeners(t, "a changes", map[string]string{"a": mark})
		}
		if l.awaitWatches(t, listenerType); !v.rest { // nobody keeps a name that goes between two polls
			l.change(listenerType, map[string]string{"a": ""})
			first.holdsListeners(t, "a goes", map[string]string{"a": ""})
		}
		if second.wasRemoved("b") || second.wasRemoved("c") {
			t.Errorf("the other client was told that what did not change is gone: %s", second.story())
		}
		l.change(listenerType, map[string]string{"a": "5"})
		first.holdsListeners(t, "a is back", map[string]string{"a": "5"})
	})
}

// The same with the LinearCache of go-control-plane 0.10.3: a name that another client adds is answered, and a change of one
// listener takes no other one away.
func TestLinearCache0103_RES7_RES8_direct_relay(t *testing.T) {
	r := newReport(t)
	r.require(t, "go-control-plane 0.10.3, linear", missingGCP0103)
	for _, v := range []variant{sotwADS, deltaADS, restPoll} {
		for _, direct := range []bool{true, false} {
			if direct && v != sotwADS {
				continue // ADS alone, and it is about the state of the world
			}
			t.Run(fmt.Sprintf("%s, direct %t", v.name, direct), func(t *testing.T) {
				p := newForeignPlane(t, gcp0103Folder+"/target/server", "linear")
				if err := p.Start(t.Context(), "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(p.Close)
				set := func(typeURL, name, mark string) {
					t.Helper()
					if _, err := p.UpdateResource(name, message(typeURL, name, mark, "")); err != nil {
						t.Fatal(err)
					}
				}
				relay := &testRelay{addr: p.Addr()}
				if !direct {
					relay = startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = config.AggregatedGRPC }, p.Addr())
				}
				for _, name := range []string{"a", "b"} {
					set(endpointType, name, "1")
					set(listenerType, name, "1")
				}
				clients := map[string]*noted{"a": startNoted(t, v, relay, "first"), "b": startNoted(t, v, relay, "second")}
				for _, name := range []string{"a", "b"} {
					clients[name].Subscribe(endpointType, name)
					clients[name].Subscribe(listenerType, name)
					clients[name].has(t, endpointType, name, "1")
					clients[name].has(t, listenerType, name, "1")
				}
				for _, mark := range []string{"2", "3"} {
					set(listenerType, "a", mark)
					clients["a"].has(t, listenerType, "a", mark)
				}
				set(listenerType, "b", "2")
				clients["b"].has(t, listenerType, "b", "2")
				if clients["b"].wasRemoved("b") || clients["a"].wasRemoved("a") {
					t.Errorf("what did not change was told to be gone: %s, %s", clients["a"].story(), clients["b"].story())
				}
			})
		}
	}
}
