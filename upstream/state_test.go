package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// said writes requests down: names in brackets, then version and nonce, then NACK.
func said(reqs []request) (out []string) {
	for _, r := range reqs {
		out = append(out, saidOne(r.(*discoveryv3.DiscoveryRequest)))
	}
	return out
}

func saidOne(r *discoveryv3.DiscoveryRequest) string {
	s := fmt.Sprintf("[%s] v=%s n=%s", strings.Join(r.ResourceNames, " "), r.VersionInfo, r.ResponseNonce)
	if r.ErrorDetail != nil {
		s += " NACK " + r.ErrorDetail.Message
	}
	return s
}

func newStateDialect(perType bool) *stateDialect {
	return &stateDialect{
		fullState: map[string]bool{clusters: true}, perType: perType, types: map[string]*stateType{}, owed: map[string]int{}, round: 1,
		shed:    func(string, int) bool { return false },
		leftOut: func(_ string, _, _ []string) {},
		large:   func(string, int, int, int, int) {},
	}
}

// What a stream says of one type, step by step.
func TestStateDialect(t *testing.T) {
	type step struct {
		sub    wire.Subscription
		answer *envelope
		reason error
		want   []string
	}
	ask := func(s wire.Subscription, want ...string) step { return step{sub: s, want: want} }
	ack := func(version, nonce, want string) step {
		return step{answer: &envelope{version: version, nonce: nonce}, want: []string{want}}
	}
	nack := func(version, nonce, want string) step {
		return step{answer: &envelope{version: version, nonce: nonce}, reason: errors.New("no"), want: []string{want}}
	}
	for name, c := range map[string]struct {
		typeURL string
		perType bool
		steps   []step
	}{
		"SUB-2 the wildcard of a full-state type is the empty list": {clusters, false, []step{
			ask(sub("", "*"), "[] v= n="),
			ack("1", "a", "[] v=1 n=a"),
		}},
		"TTL-5 the only name of a stream is asked for again": {endpoints, true, []step{
			ask(sub("", "a"), "[a] v= n="),
			ack("1", "n", "[a] v=1 n=n"),
			ask(unsub("", "a")),
			ask(sub("", "a"), "[] v=1 n=n", "[a] v=1 n=n"),
			ask(sub("", "b"), "[a b] v=1 n=n"),
		}},
		"SUB-4 that of another type has its name": {endpoints, false, []step{
			ask(sub("", "*"), "[*] v= n="),
			ack("1", "a", "[*] v=1 n=a"),
			ask(unsub("", "*"), "[] v=1 n=a"),
		}},
		"SUB-2 the older wildcard is let go by naming it first": {clusters, false, []step{
			ask(sub("", "*"), "[] v= n="),
			ack("1", "a", "[] v=1 n=a"),
			ask(unsub("", "*"), "[*] v=1 n=a", "[] v=1 n=a"),
			ack("1", "b", "[] v=1 n=b"),
		}},
		"SUB-2 wanted again the empty list would mean nothing": {clusters, false, []step{
			ask(sub("", "*"), "[] v= n="),
			ask(unsub("", "*"), "[*] v= n=", "[] v= n="),
			ask(sub("", "*"), "[*] v= n="),
		}},
		"per type the stream ends instead": {clusters, true, []step{
			ask(sub("", "*"), "[] v= n="),
			ask(unsub("", "*")),
		}},
		"STR-9 every request has all names, the version and the nonce": {endpoints, false, []step{
			ask(sub("", "b", "a"), "[a b] v= n="),
			ack("1", "x", "[a b] v=1 n=x"),
			ask(sub("", "c"), "[a b c] v=1 n=x"),
			ask(wire.Subscription{Subscribe: []string{"d"}, Unsubscribe: []string{"a", "b"}}, "[c d] v=1 n=x"),
		}},
		"ACK-2 a NACK has the version accepted last": {endpoints, false, []step{
			ask(sub("", "a"), "[a] v= n="),
			nack("1", "x", "[a] v= n=x NACK no"),
			ack("2", "y", "[a] v=2 n=y"),
			nack("3", "z", "[a] v=2 n=z NACK no"),
			ask(sub("", "b"), "[a b] v=2 n=z"),
		}},
		"what changed while a response was on its way is in its answer": {endpoints, false, []step{
			ask(sub("", "a"), "[a] v= n="),
			ask(sub("", "b"), "[a b] v= n="),
			ack("1", "x", "[a b] v=1 n=x"),
		}},
		"RES-2 ACK-4 one who holds something says so until a response is accepted": {clusters, false, []step{
			ask(wire.Subscription{Subscribe: []string{"*"}, Held: true}, "[] v=unconfirmed n="),
			ask(sub("", "x"), "[*] v=unconfirmed n=", "[* x] v=unconfirmed n="),
			nack("1", "a", "[* x] v=unconfirmed n=a NACK no"),
			ack("1", "b", "[* x] v=1 n=b"),
			ask(wire.Subscription{Subscribe: []string{"y"}, Held: true}, "[* x y] v=1 n=b"),
		}},
		"nothing to say": {endpoints, false, []step{ask(wire.Subscription{})}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newStateDialect(c.perType)
			for i, st := range c.steps {
				var got []string
				if st.answer != nil {
					st.answer.typeURL = c.typeURL
					got = said([]request{d.answer(*st.answer, st.reason)})
				} else {
					st.sub.TypeURL = c.typeURL
					got = said(d.subscribe(st.sub, 0, 1<<20))
				}
				if diff := cmp.Diff(st.want, got); diff != "" {
					t.Fatalf("step %d (-want +got):\n%s", i, diff)
				}
			}
		})
	}
}

// What was never asked for is answered, and its version is not kept: the first request has the server send it again.
// On the stream of another type an answer would be of a wrong type.
func TestStateUnasked_SUB13_STR8(t *testing.T) {
	d := newStateDialect(false)
	got := said([]request{
		d.answer(envelope{typeURL: clusters, nonce: "n", version: "1"}, nil),
		d.answer(envelope{typeURL: clusters, nonce: "m", version: "2"}, errors.New("bad")),
		d.subscribe(sub(clusters, "*"), 0, 1<<20)[0],
	})
	if diff := cmp.Diff([]string{"[] v=1 n=n", "[] v= n=m NACK bad", "[] v= n=m"}, got); diff != "" {
		t.Errorf("said (-want +got):\n%s", diff)
	}
	if r := newStateDialect(true).answer(envelope{typeURL: clusters, nonce: "n", version: "1"}, errNotAsked); r != nil {
		t.Errorf("SUB-2: answered %v on the stream of another type", r)
	}
}

// A request that would be too large waits until names that nobody watches were let go.
// If that does not suffice, names are left out, which is told of once.
func TestRES17StateRequestIsReduced(t *testing.T) {
	d := newStateDialect(false)
	var asked, told []int
	parked := true
	d.shed = func(_ string, bytes int) bool {
		asked = append(asked, bytes)
		return parked
	}
	d.large = func(_ string, names, leftOut, _, _ int) { told = append(told, names, leftOut) }
	expect := func(reqs []request, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, said(reqs)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	const limit = 100
	expect(d.subscribe(sub(endpoints, "parked-1", "parked-2"), 0, limit), "[parked-1 parked-2] v= n=")
	if len(asked) > 0 {
		t.Fatalf("shed %v though everything fits", asked)
	}
	expect(d.subscribe(sub(endpoints, "watched-1"), 20, limit))
	expect(d.flush()) // what is let go is only in the next round
	d.begin()
	expect(d.subscribe(unsub(endpoints, "parked-1", "parked-2"), 0, limit), "[watched-1] v= n=")
	expect(d.flush()) // said already
	if len(asked) != 1 || asked[0] <= limit/8 || len(told) > 0 {
		t.Errorf("to shed: %v; told: %v", asked, told)
	}
	// What was to be let go is wanted again, and there is no room for it.
	long := strings.Repeat("x", limit)
	d.begin()
	expect(d.subscribe(sub(endpoints, long), 0, limit))
	expect(d.flush())
	d.begin()
	expect(d.flush())
	parked = false
	expect(d.subscribe(sub(endpoints, "a"), 0, limit), "[a watched-1] v= n=")
	expect(d.subscribe(unsub(endpoints, "a"), 0, limit), "[watched-1] v= n=")
	if !slices.Equal(told, []int{2, 1}) {
		t.Errorf("told %v, want once: one of two names is left out", told)
	}
}

// If all the names of a first request that was put off are let go, nothing is said: an
// empty list would ask for everything (SUB-2).
func TestSUB2RES17NothingLeftToAskFor(t *testing.T) {
	d := newStateDialect(false)
	d.shed = func(string, int) bool { return true }
	if got := d.subscribe(sub(clusters, strings.Repeat("x", 100)), 0, 100); got != nil {
		t.Errorf("said %v", said(got))
	}
	if got := d.subscribe(unsub(clusters, strings.Repeat("x", 100)), 0, 100); got != nil {
		t.Errorf("said %v", said(got))
	}
	d.flush()
	d.begin()
	if got := d.flush(); got != nil {
		t.Errorf("said %v", said(got))
	}
}

// What is put off is said in the end, however it came to be, as far as there is room (RES-17).
func TestRES17WhatIsPutOffIsSaid(t *testing.T) {
	const limit = 100
	long := strings.Repeat("x", limit)
	for name, c := range map[string]struct {
		run  func(d *stateDialect) [][]request
		want [][]string
	}{
		"between two rounds": {func(d *stateDialect) [][]request {
			d.begin()
			d.flush()
			out := [][]request{d.subscribe(sub(endpoints, "a", long), 0, limit)}
			d.begin()
			return append(out, d.flush())
		}, [][]string{nil, {"[a] v= n="}}},
		"TTL-5 a name asked for again": {func(d *stateDialect) [][]request {
			out := [][]request{d.subscribe(sub(endpoints, "a", "b"), 0, limit), d.flush()}
			d.begin()
			out = append(out, d.subscribe(wire.Subscription{TypeURL: endpoints, Subscribe: []string{long}, Unsubscribe: []string{"a"}}, 0, limit))
			out = append(out, d.subscribe(sub(endpoints, "a"), 0, limit), d.flush())
			d.begin()
			return append(out, d.subscribe(unsub(endpoints, long), 0, limit), d.flush())
		}, [][]string{{"[a b] v= n="}, nil, nil, nil, nil, {"[b] v= n=", "[a b] v= n="}, nil}},
		"TTL-5 a name asked for again, and all that was to be let go stays": {func(d *stateDialect) [][]request {
			out := [][]request{d.subscribe(sub(endpoints, "a"), 0, limit)}
			d.begin()
			out = append(out, d.subscribe(sub(endpoints, "a", long), 0, limit), d.flush())
			out = append(out, []request{d.answer(envelope{typeURL: endpoints, nonce: "n", version: "1"}, nil)})
			d.begin()
			return append(out, d.flush(), d.flush())
		}, [][]string{{"[a] v= n="}, nil, nil, {"[a] v=1 n=n"}, {"[] v=1 n=n", "[a] v=1 n=n"}, nil}},
		"SUB-2 no answer asks for what is put off": {func(d *stateDialect) [][]request {
			out := [][]request{d.subscribe(sub(endpoints, long), 0, limit)}
			if r := d.answer(envelope{typeURL: endpoints, nonce: "n", version: "1"}, errNotAsked); r != nil {
				out = append(out, []request{r})
			}
			return out
		}, [][]string{nil}},
	} {
		t.Run(name, func(t *testing.T) {
			d := newStateDialect(false)
			d.shed = func(string, int) bool { return true }
			var got [][]string
			for _, reqs := range c.run(d) {
				got = append(got, said(reqs))
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// While a request is put off an answer says what was said last, and what was put off is not taken for said.
func TestAnswerWhileSomethingIsPutOff_RES17(t *testing.T) {
	d := newStateDialect(false)
	d.shed = func(string, int) bool { return true }
	d.subscribe(sub(endpoints, "a", "b"), 0, 100)
	late := strings.Repeat("x", 100)
	if got := d.subscribe(sub(endpoints, late), 0, 100); got != nil {
		t.Fatalf("said %v, want it put off", said(got))
	}
	r, ok := d.answer(envelope{typeURL: endpoints, nonce: "n", version: "1"}, nil).(*discoveryv3.DiscoveryRequest)
	if !ok {
		t.Fatal("no answer")
	}
	if !slices.Equal(r.GetResourceNames(), []string{"a", "b"}) {
		t.Errorf("said %q", r.GetResourceNames())
	}
	if last := d.types[endpoints].last; slices.Contains(last, late) {
		t.Errorf("%q counts as said", last)
	}
}

const (
	stateADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/StreamAggregatedResources"
	stateCDS = "/envoy.service.cluster.v3.ClusterDiscoveryService/StreamClusters"
	stateEDS = "/envoy.service.endpoint.v3.EndpointDiscoveryService/StreamEndpoints"
	deltaADS = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"
	deltaCDS = "/envoy.service.cluster.v3.ClusterDiscoveryService/DeltaClusters"
	deltaEDS = "/envoy.service.endpoint.v3.EndpointDiscoveryService/DeltaEndpoints"
)

func (n *network) speaking(api APIType, hosts ...string) Config {
	cfg := n.config(hosts...)
	cfg.APIType = api
	return cfg
}

// expect compares the next request of the stream with what is written.
func (as *anyStream) expect(want string) {
	as.t.Helper()
	if got := saidOne(as.next()); got != want {
		as.t.Errorf("request %s, want %s", got, want)
	}
}

// One stream carries all types, each with its own version and nonce; a new stream
// begins with the node and presents no version that a server gave, though it says of
// what types something is held (VAR-3, STR-2, STR-8, STR-9, ACK-4, RES-2).
func TestVAR3STR2STR8STR9ACK4Aggregated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(clusters, "*"), sub(endpoints, "x"))
		s := run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		as := srv.accept(stateADS)
		first, second := as.next(), as.next()
		if first.GetNode().GetId() != "relay" || second.GetNode() != nil || first.TypeUrl != clusters || second.TypeUrl != endpoints {
			t.Errorf("first requests %v, %v", first, second)
		}
		as.state(clusters, "7", "n1", "c")
		as.expect("[] v=7 n=n1")
		as.state(endpoints, "8", "n2", "x")
		as.expect("[x] v=8 n=n2")
		as.send(&discoveryv3.DiscoveryResponse{TypeUrl: clusters, VersionInfo: "9", Nonce: "n3", Resources: nil})
		as.expect("[] v=9 n=n3")
		store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "x", "y")}, sub(endpoints, "y"))
		as.expect("[x y] v=8 n=n2")
		synctest.Wait()
		as.silent()
		if st := s.Status(); st.Responses != 3 || st.Acks != 3 || st.State != StateConnected {
			t.Errorf("status %+v", st)
		}
		store.get(func(s *memStore) {
			if len(s.states) != 3 || s.states[0].Version != "7" || s.states[0].Resources[0].Name != "c" {
				t.Errorf("applied %v", s.states)
			}
		})
		store.get(func(s *memStore) { s.held = map[string]bool{clusters: true} })
		as.end <- status.Error(codes.Unavailable, "restarting")
		as = srv.accept(stateADS)
		if first = as.next(); first.GetNode().GetId() != "relay" || saidOne(first) != "[] v=unconfirmed n=" {
			t.Errorf("first request of the second stream: %v", first)
		}
		as.expect("[x y] v= n=")
	})
}

// What cannot be used is rejected with the reason and the version from before, and
// the stream goes on (ACK-2, ACK-6).
func TestACK2ACK6StateRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(clusters, "*"))
		s := run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		as := srv.accept(stateADS)
		as.next()
		as.state(clusters, "1", "n1", "c")
		as.expect("[] v=1 n=n1")
		as.send(&discoveryv3.DiscoveryResponse{
			TypeUrl: clusters, VersionInfo: "2", Nonce: "n2",
			Resources: []*anypb.Any{{TypeUrl: clusters, Value: []byte{10}}}, // half a payload
		})
		as.expect("[] v=1 n=n2 NACK wire: cannot decode resources[0].value: unexpected EOF")
		store.get(func(s *memStore) { s.refuse = errors.New("twice") })
		as.state(clusters, "3", "n3", "c")
		as.expect("[] v=1 n=n3 NACK twice")
		store.get(func(s *memStore) { s.refuse = nil })
		as.state(clusters, "4", "n4", "c")
		as.expect("[] v=4 n=n4")
		if st := s.Status(); st.Acks != 2 || st.Nacks != 2 || st.LastRejection == nil {
			t.Errorf("status %+v", st)
		}
	})
}

// A change of names while an ACK is held would acknowledge the response: the ACK goes
// first (ACK-7, STR-8).
func TestACK7StateNamesEndTheHolding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		cfg := n.speaking(AggregatedGRPC, "a")
		cfg.Nack.Wait = time.Minute
		store := newStore(sub(endpoints, "x"))
		s := run(t, newUpstream(t, cfg), store, nil)
		as := srv.accept(stateADS)
		as.next()
		as.state(endpoints, "1", "n1", "x")
		synctest.Wait()
		as.silent()
		store.want(0, []wire.Subscription{sub(endpoints, "x", "y")}, sub(endpoints, "y"))
		as.expect("[x] v=1 n=n1")
		as.expect("[x y] v=1 n=n1")

		as.state(endpoints, "2", "n2", "x", "y")
		synctest.Wait()
		s.Tell(rejected(endpoints, 2, "not y"))
		as.expect("[x y] v=1 n=n2 NACK not y")
	})
}

// The session has the Store let go of names when a request grows too large, and writes
// what is left (RES-17).
func TestRES17SessionSheds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		cfg := n.speaking(AggregatedGRPC, "a")
		cfg.MaxRequestSize = 200
		long := strings.Repeat("l", 100)
		store := newStore(sub(endpoints, long))
		store.parked[endpoints] = []string{long}
		run(t, newUpstream(t, cfg), store, nil)
		as := srv.accept(stateADS)
		as.next()
		more := strings.Repeat("m", 100)
		store.want(0, []wire.Subscription{sub(endpoints, more)}, sub(endpoints, more), sub(clusters, "*"))
		as.expect("[] v= n=")
		as.expect("[" + more + "] v= n=")
	})
}

// A type for which the server ends the aggregated stream is kept aside, whatever the
// variant, and joins when the server takes it.
func TestStateTypeIsKeptAside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.serveAny("a")
		store := newStore(sub(clusters, "*"), sub(endpoints, "x"))
		s := run(t, newUpstream(t, n.speaking(AggregatedGRPC, "a")), store, nil)
		withheld := func(want bool) {
			t.Helper()
			store.get(func(s *memStore) {
				if s.withheld[endpoints] != want || s.withheld[clusters] {
					t.Errorf("RES-7 withheld %v, want of endpoints %t", s.withheld, want)
				}
			})
		}
		as := srv.accept(stateADS)
		as.next()
		as.next()
		as.state(clusters, "1", "1", "c")
		as.expect("[] v=1 n=1")
		as.end <- status.Error(codes.Unimplemented, "no endpoints here")

		as = srv.accept(stateADS)
		as.expect("[] v= n=")
		synctest.Wait()
		as.silent()
		if st := s.Status(); !slices.Equal(sortedKeys(st.Refused), []string{endpoints}) {
			t.Errorf("refused %v", st.Refused)
		}
		withheld(true)
		as.state(clusters, "1", "1", "c")
		as.expect("[] v=1 n=1")
		as.expect("[x] v= n=") // it stood beside
		withheld(false)
		as.state(endpoints, "1", "2", "x")
		as.expect("[x] v=1 n=2")
		synctest.Wait()
		if st := s.Status(); len(st.Refused) > 0 {
			t.Errorf("refused %v", st.Refused)
		}
	})
}

// A type that was kept aside and is too large to join as it is, is asked for
// when the Store has let go of names, or has changed its mind (RES-17).
func TestRES17OPS2RetryThatIsPutOff(t *testing.T) {
	long, short := strings.Repeat("l", 100), "s"
	all := "[" + long + "] v= n=" // for the later ones there is no room
	for name, c := range map[string]struct {
		parked  []string
		recover bool   // what was to be let go is wanted again
		want    string // "": nothing
	}{
		"names are let go":           {[]string{long, long + "2"}, false, "[" + short + "] v= n="},
		"all names are let go":       {[]string{long, long + "2", short}, false, ""},
		"they are wanted again":      {[]string{long}, true, all},
		"there is nothing to let go": {nil, false, all},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				srv := n.serveAny("a")
				cfg := n.speaking(AggregatedGRPC, "a")
				store := newStore(sub(clusters, "*"), sub(endpoints, long, long+"2", short))
				u := newUpstream(t, cfg)
				s := run(t, u, store, nil)
				as := srv.accept(stateADS)
				as.next()
				as.next()
				as.state(clusters, "1", "1", "c")
				as.expect("[] v=1 n=1")
				synctest.Wait()
				s.events <- func() { u.cfg.MaxRequestSize = 200 }
				as.end <- status.Error(codes.Unimplemented, "no endpoints here")
				as = srv.accept(stateADS)
				as.expect("[] v= n=")
				store.get(func(s *memStore) {
					if c.parked != nil {
						s.parked[endpoints] = c.parked
					}
					s.recovers = c.recover
				})
				as.state(clusters, "1", "1", "c")
				as.expect("[] v=1 n=1")
				<-time.After(renewPause + 2*stableAfter)
				synctest.Wait()
				if c.want != "" {
					as.expect(c.want)
				}
				as.silent()
				if st := s.Status(); st.Refused[endpoints] != "" {
					t.Errorf("refused %v", st.Refused)
				}
				// What comes later joins like before.
				if c.want == "" {
					store.want(0, []wire.Subscription{sub(clusters, "*"), sub(endpoints, "z")}, sub(endpoints, "z"))
					<-time.After(time.Minute)
					as.expect("[z] v= n=")
				}
			})
		})
	}
}
