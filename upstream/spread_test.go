package upstream

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
)

// names is a Resolver that answers as the test says.
type names struct {
	mu      sync.Mutex
	answers map[string][]netip.Addr // a name without an answer cannot be looked up
	asked   int
	turns   bool // each answer has the next one of the addresses only
	hangs   bool
}

func newNames(host string, addresses ...string) *names {
	n := &names{answers: map[string][]netip.Addr{}}
	n.set(host, addresses...)
	return n
}

func (n *names) set(host string, addresses ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []netip.Addr
	for _, a := range addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	n.answers[host] = all
}

func (n *names) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	n.asked++
	all, turns, hangs := n.answers[host], n.turns, n.hangs
	asked := n.asked
	n.mu.Unlock()
	switch {
	case hangs:
		<-ctx.Done()
		return nil, ctx.Err()
	case len(all) == 0:
		return nil, errors.New("no such host")
	case turns:
		return []netip.Addr{all[asked%len(all)]}, nil
	}
	return all, nil
}

// fleet is a number of scopes of one upstream.
type fleet struct {
	t        *testing.T
	stores   []*memStore
	sessions []*running
	obs      *recorder
}

func runFleet(t *testing.T, u *Upstream, scopes int) *fleet {
	t.Helper()
	f := &fleet{t: t, obs: &recorder{}}
	for i := range scopes {
		store := newStore(sub(clusters, "*"))
		s, err := u.NewSession(SessionConfig{
			Node: &corev3.Node{Id: fmt.Sprint("relay-", i)}, Scope: fmt.Sprint("scope-", i), Store: store, Observer: f.obs,
		})
		if err != nil {
			t.Fatal(err)
		}
		f.stores, f.sessions = append(f.stores, store), append(f.sessions, start(t, s))
	}
	synctest.Wait()
	return f
}

// at is where each scope's stream is; "" is nowhere.
func (f *fleet) at() []string {
	synctest.Wait()
	at := make([]string, len(f.sessions))
	for i, s := range f.sessions {
		if st := s.Status(); st.Streams > 0 && st.State == StateConnected {
			at[i] = st.Endpoint
		}
	}
	return at
}

func tally(at []string) map[string]int {
	sums := make(map[string]int)
	for _, where := range at {
		sums[where]++
	}
	return sums
}

// even checks that each replica serves its share of the scopes.
func even(t *testing.T, at []string, replicas, least, most int) {
	t.Helper()
	sums := tally(at)
	if len(sums) != replicas {
		t.Errorf("scopes by replica: %v, want %d replicas", sums, replicas)
	}
	for name, n := range sums {
		if n < least || n > most || name == "" {
			t.Errorf("%q serves %d scopes, want %d to %d: %v", name, n, least, most, sums)
		}
	}
}

// moved checks which scopes are elsewhere: all those that were at from, and if to is given
// those that are there now, and no others.
func moved(t *testing.T, before, after []string, from, to string) {
	t.Helper()
	for i := range before {
		switch {
		case before[i] == from:
			if after[i] == from || after[i] == "" {
				t.Errorf("scope %d is at %q", i, after[i])
			}
		case after[i] != before[i] && (to == "" || after[i] != to):
			t.Errorf("scope %d moved from %q to %q", i, before[i], after[i])
		}
	}
}

// counted is a server that answers a stream with one cluster, unless the stream resumes with
// it. It counts what it sent.
type counted struct {
	*server

	mu   sync.Mutex
	sent int
}

func (n *network) counted(host string) *counted {
	c := &counted{}
	c.server = n.serve(host, func(s *server) { s.deaf = true })
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			select {
			case ss := <-c.streams:
				wg.Go(func() { c.handle(ss) })
			case <-done:
				return
			}
		}
	})
	n.t.Cleanup(func() { close(done); c.stop(); wg.Wait() })
	return c
}

func (c *counted) handle(ss *serverStream) {
	for {
		req, err := ss.Recv()
		if err != nil {
			return
		}
		if req.GetResponseNonce() != "" || req.GetInitialResourceVersions()["c"] == "v1" {
			continue
		}
		c.mu.Lock()
		c.sent++
		c.mu.Unlock()
		ss.respond(clusters, "1", "c")
	}
}

// oneEach checks that each store was given the one resource once, whatever moved.
func (f *fleet) oneEach() {
	f.t.Helper()
	for i, store := range f.stores {
		store.get(func(s *memStore) {
			if len(s.applied) != 1 {
				f.t.Errorf("scope %d was given %d responses", i, len(s.applied))
			}
		})
	}
}

// elsewhere is how long it may take until scopes are where they belong.
const elsewhere = 2 * time.Minute

// A hundred scopes spread over three replicas. One dies: only its scopes move, and to both of
// the others. It returns: they go back. Nothing is sent twice.
func TestLOC6SpreadOverReplicas(t *testing.T) {
	for name, hosts := range map[string][]string{
		"some": {"a", "b", "c"}, "others": {"x", "y", "z"}, "numbers": {"10.0.0.1:1", "10.0.0.2:1", "10.0.0.3:1"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				cfg := n.config()
				var group []string
				var servers []*counted
				for _, h := range hosts {
					group = append(group, "passthrough:///"+h)
					servers = append(servers, n.counted(h))
				}
				n.counted("dr")
				cfg.Endpoints = [][]string{group, {"passthrough:///dr"}}
				f := runFleet(t, newUpstream(t, cfg), 100)
				pass(elsewhere)
				first := f.at()
				even(t, first, 3, 25, 42)

				for i := range servers {
					servers[i].stop()
					pass(elsewhere)
					without := f.at()
					moved(t, first, without, group[i], "")
					even(t, without, 2, 40, 60)

					servers[i] = n.counted(hosts[i])
					pass(elsewhere)
					if back := f.at(); !slices.Equal(first, back) {
						t.Errorf("scopes by replica %v, were %v", tally(back), tally(first))
					}
				}
				f.oneEach()
			})
		})
	}
}

// Where no replica of the first priority is there, the scopes spread over the next. After an
// outage each goes to its own replica.
func TestLOC6SpreadOverPriorities(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		cfg := n.config()
		for _, group := range [][]string{{"a", "b"}, {"c", "d"}} {
			cfg.Endpoints = append(cfg.Endpoints, []string{"passthrough:///" + group[0], "passthrough:///" + group[1]})
		}
		c, d := n.counted("c"), n.counted("d")
		f := runFleet(t, newUpstream(t, cfg), 40)
		pass(elsewhere)
		second := f.at()
		even(t, second, 2, 16, 24)
		if tally(second)["passthrough:///c"] == 0 {
			t.Errorf("scopes by replica %v", tally(second))
		}
		a, b := n.counted("a"), n.counted("b")
		pass(elsewhere)
		first := f.at()
		even(t, first, 2, 16, 24)
		if tally(first)["passthrough:///a"] == 0 {
			t.Errorf("scopes by replica %v", tally(first))
		}
		for _, s := range []*counted{a, b, c, d} {
			s.stop()
		}
		pass(time.Minute)
		n.counted("c")
		n.counted("a")
		n.counted("b")
		pass(elsewhere)
		if again := f.at(); !slices.Equal(first, again) {
			t.Errorf("after an outage %v, before %v", tally(again), tally(first))
		}
		f.oneEach()
	})
}

// A name spreads over its addresses. One that leaves the answer loses its scopes, one that
// joins gets its share, and nothing else moves. What the server is called is the name.
func TestLOC6SpreadOverAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const name = "cp.example.com:443"
		n := newNetwork(t)
		for i := range 4 {
			n.counted(fmt.Sprintf("10.0.0.%d:443", i+1))
		}
		where := func(i int) string { return fmt.Sprintf("%s (10.0.0.%d)", name, i) }
		resolver := newNames("cp.example.com", "10.0.0.1", "::ffff:10.0.0.2", "10.0.0.3")
		cfg := n.config()
		cfg.Endpoints, cfg.Dial.Resolver = [][]string{{name}}, resolver
		u := newUpstream(t, cfg)
		f := runFleet(t, u, 100)
		if moves := len(f.obs.moves); moves > 0 {
			t.Errorf("%d moves to begin with", moves)
		}
		pass(elsewhere)
		three := f.at()
		even(t, three, 3, 25, 42)

		resolver.set("cp.example.com", "10.0.0.3", "10.0.0.1")
		pass(elsewhere)
		two := f.at()
		moved(t, three, two, where(2), "")
		even(t, two, 2, 40, 60)

		resolver.set("cp.example.com", "10.0.0.1", "10.0.0.3", "10.0.0.4")
		pass(elsewhere)
		joined := f.at()
		moved(t, two, joined, where(2), where(4))
		if got := tally(joined)[where(4)]; got < 25 || got > 42 {
			t.Errorf("the replica that joined serves %d scopes", got)
		}

		resolver.set("cp.example.com") // no answer is no reason to leave what serves
		pass(elsewhere)
		if got := f.at(); !slices.Equal(got, joined) {
			t.Errorf("scopes by replica %v, were %v", tally(got), tally(joined))
		}
		f.oneEach()

		var list []string
		for _, x := range u.Replicas() {
			list = append(list, fmt.Sprint(x.Endpoint, " ", x.Priority, x.Spare, x.UnreachableSince.IsZero()))
		}
		slices.Sort(list)
		if want := []string{where(1) + " 0 false true", where(3) + " 0 false true", where(4) + " 0 false true"}; !slices.Equal(list, want) {
			t.Errorf("replicas %q, want %q", list, want)
		}
	})
}

// A name is looked up again at least every 30 seconds, and after a failure, though not for
// each of many.
func TestLOC6LookedUpAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		srv := n.counted("10.0.0.1:443")
		resolver := newNames("cp", "10.0.0.1")
		cfg := n.config()
		cfg.Endpoints, cfg.Dial.Resolver = [][]string{{"cp:443"}}, resolver
		u := newUpstream(t, cfg)
		if resolver.asked > 0 {
			t.Error("looked up for nobody")
		}
		f := runFleet(t, u, 50)
		asked := func() int {
			resolver.mu.Lock()
			defer resolver.mu.Unlock()
			return resolver.asked
		}
		pass(time.Minute)
		for range 20 {
			before := asked()
			pass(30 * time.Second)
			if got := asked() - before; got < 1 || got > 2 {
				t.Fatalf("%d look-ups in 30 seconds", got)
			}
		}
		// All pods are others from one moment to the next.
		srv.stop()
		n.counted("10.0.0.2:443")
		resolver.set("cp", "10.0.0.2")
		before := asked()
		pass(20 * time.Second) // a stream that resumed counts after ten
		even(t, f.at(), 1, 50, 50)
		if got := asked() - before; got < 1 || got > 20 {
			t.Errorf("%d look-ups in 20 seconds", got)
		}
		f.oneEach()
	})
}

// A name that cannot be looked up keeps nobody waiting for longer than the connect timeout:
// the next priority serves, until the name is known.
func TestLOC6UnknownName(t *testing.T) {
	for what, hangs := range map[string]bool{"refused": false, "silent": true} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := newNetwork(t)
				n.counted("dr")
				n.counted("10.0.0.1:443")
				resolver := newNames("cp")
				resolver.hangs = hangs
				cfg := n.config()
				cfg.Endpoints, cfg.Dial.Resolver = [][]string{{"cp:443"}, {"passthrough:///dr"}}, resolver
				u := newUpstream(t, cfg)
				f := runFleet(t, u, 3)
				if state := f.sessions[0].Status().State; state != StateConnecting && hangs {
					t.Errorf("%s while the name is looked up", state)
				}
				pass(3 * DefaultConnectTimeout)
				even(t, f.at(), 1, 3, 3)
				resolver.mu.Lock()
				resolver.hangs = false
				resolver.mu.Unlock()
				resolver.set("cp", "10.0.0.1")
				pass(elsewhere)
				if got := tally(f.at()); got["cp:443 (10.0.0.1)"] != 3 {
					t.Errorf("scopes by replica %v", got)
				}
			})
		})
	}
}

// Of a name with addresses of both IP versions those are in use that come first, unless only
// the others can be reached.
func TestLOC6SpareAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		n.counted("127.0.0.1:443")
		cfg := n.config()
		cfg.Endpoints, cfg.Dial.Resolver = [][]string{{"both:443"}}, newNames("both", "::1", "127.0.0.1")
		u := newUpstream(t, cfg)
		f := runFleet(t, u, 20)
		pass(elsewhere)
		even(t, f.at(), 1, 20, 20)
		before := len(n.dialled("[::1]:443"))
		pass(time.Hour)
		if got := len(n.dialled("[::1]:443")); got != before || before > 3 {
			t.Errorf("%d attempts at what nobody listens on, then %d", before, got-before)
		}
		if got := u.Replicas(); !got[1].Spare || got[0].Spare {
			t.Errorf("replicas %+v", got)
		}
	})
}

// A name that gives some of its addresses with each answer does not move streams with each.
func TestLOC6RotatingName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		for i := range 3 {
			n.counted(fmt.Sprintf("10.0.0.%d:443", i+1))
		}
		resolver := newNames("lb", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		resolver.turns = true
		cfg := n.config()
		cfg.Endpoints, cfg.Dial.Resolver = [][]string{{"lb:443"}}, resolver
		f := runFleet(t, newUpstream(t, cfg), 10)
		pass(10 * time.Minute)
		f.obs.locked(func() { f.obs.moves = nil })
		pass(2 * time.Hour)
		f.obs.locked(func() {
			if len(f.obs.moves) > 0 {
				t.Errorf("moves %v", f.obs.moves)
			}
		})
		// Once it has only one left, that serves all.
		resolver.mu.Lock()
		resolver.turns = false
		resolver.mu.Unlock()
		resolver.set("lb", "10.0.0.2")
		pass(rotation + elsewhere)
		even(t, f.at(), 1, 10, 10)
		f.oneEach()
	})
}

// A priority of which no replica answers does not let each of them wait: the next one serves
// after two attempts.
func TestLOC6SilentReplicas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		var addresses []string
		for i := range 20 {
			addresses = append(addresses, fmt.Sprint("10.0.0.", i+1))
			n.blackHole(fmt.Sprintf("10.0.0.%d:443", i+1))
		}
		n.counted("dr")
		cfg := n.config()
		cfg.Endpoints, cfg.Dial.Resolver = [][]string{{"cp:443"}, {"passthrough:///dr"}}, newNames("cp", addresses...)
		f := runFleet(t, newUpstream(t, cfg), 1)
		pass(2*DefaultConnectTimeout + time.Second)
		even(t, f.at(), 1, 1, 1)
		if got := len(f.obs.failures); got != 2 {
			t.Errorf("%d failures, want 2: %v", got, f.obs.failures)
		}
		n.counted("10.0.0.7:443") // which the session finds, among all the others
		pass(10 * time.Minute)
		if got := tally(f.at()); got["cp:443 (10.0.0.7)"] != 1 {
			t.Errorf("scopes by replica %v", got)
		}
	})
}

// Reach tries the replicas of a priority at once, and then the next.
func TestLOC6Reach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		for _, host := range []string{"10.0.0.1:443", "10.0.0.2:443", "10.0.0.3:443", "dr"} {
			n.blackHole(host)
		}
		cfg := n.config()
		cfg.Endpoints = [][]string{{"cp:443"}, {"passthrough:///dr"}}
		cfg.Dial.Resolver = newNames("cp", "10.0.0.1", "10.0.0.2", "10.0.0.3")
		u := newUpstream(t, cfg)
		reach := func() (time.Duration, error) {
			start := time.Now()
			err := u.Reach(t.Context())
			return time.Since(start), err
		}
		if took, err := reach(); err == nil || took != 2*DefaultConnectTimeout {
			t.Errorf("after %v: %v, want a failure after two timeouts", took, err)
		}
		n.counted("dr")
		if took, err := reach(); err != nil || took != DefaultConnectTimeout {
			t.Errorf("after %v: %v, want success after one timeout", took, err)
		}
		n.counted("10.0.0.2:443")
		if took, err := reach(); err != nil || took != 0 {
			t.Errorf("after %v: %v, want success at once", took, err)
		}
	})
}

// With few scopes no replica has most of them, and one that dies gives none of its scopes to
// a replica that is not there.
func TestLOC6FewScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		cfg := n.config()
		cfg.Endpoints = [][]string{{"passthrough:///a", "passthrough:///b", "passthrough:///c", "passthrough:///gone"}}
		for _, host := range []string{"a", "b", "c"} {
			n.counted(host)
		}
		f := runFleet(t, newUpstream(t, cfg), 8)
		pass(elsewhere)
		even(t, f.at(), 3, 2, 4)
	})
}

// The scopes of a replica that died come to the others one by one (UPS-2).
func TestLOC6UPS2ScopesOfDeadReplicaFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		cfg := n.config()
		cfg.Endpoints, cfg.Backoff.Base = [][]string{{"passthrough:///a", "passthrough:///b"}}, time.Millisecond
		a := n.counted("a")
		n.counted("b")
		f := runFleet(t, newUpstream(t, cfg), 300)
		pass(elsewhere)
		before := tally(f.at())
		even(t, f.at(), 2, 135, 165)
		a.stop()
		pass(time.Duration(before["passthrough:///a"]) * admitPause / 2)
		if got := tally(f.at()); got[""] < before["passthrough:///a"]/3 {
			t.Errorf("scopes by replica %v in half the time", got)
		}
		pass(time.Minute)
		even(t, f.at(), 1, 300, 300)
	})
}

// Sessions of one scope that are not the same spread too.
func TestLOC6SpreadByKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		cfg := n.config()
		cfg.Endpoints = [][]string{{"passthrough:///a", "passthrough:///b"}}
		u := newUpstream(t, cfg)
		first := make(map[string]int)
		for i := range 40 {
			s, err := u.NewSession(SessionConfig{Scope: "one", Key: fmt.Sprint(i), Store: newStore()})
			if err != nil {
				t.Fatal(err)
			}
			first[s.source.(*remote).failback.order[0].name]++
		}
		if len(first) != 2 || first["passthrough:///a"] < 10 || first["passthrough:///b"] < 10 {
			t.Errorf("sessions by replica: %v", first)
		}
	})
}

// Homes are given back, and no replica becomes the home of more than its share.
func TestLOC6Homes(t *testing.T) {
	cfg, err := Config{Endpoints: [][]string{{"a", "b", "c"}, {"d"}}}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	all := newReplicas(&cfg, nil)
	defer all.close()
	homes := func() map[string]int {
		sums := make(map[string]int)
		for _, g := range all.groups {
			for _, e := range g.endpoints {
				sums[e.target] = e.replicas[0].homes
			}
		}
		return sums
	}
	var seats []*seat
	for i := range 300 {
		p := &seat{key: fmt.Sprint(i), bell: make(chan<- struct{}, 1)}
		all.join(p)
		seats = append(seats, p)
		sums := homes()
		for _, name := range []string{"a", "b", "c"} {
			if most := share(i+1, 3); sums[name] > most {
				t.Fatalf("%d scopes: %v, want at most %d", i+1, sums, most)
			}
		}
		if sums["d"] != i+1 {
			t.Fatalf("%d scopes: %v", i+1, sums)
		}
	}
	for _, p := range seats {
		all.leave(p)
	}
	if got := homes(); !maps.Equal(got, map[string]int{"a": 0, "b": 0, "c": 0, "d": 0}) {
		t.Errorf("homes of nobody: %v", got)
	}
}

// Only hosts that are names are looked up.
func TestLOC6WhatIsLookedUp(t *testing.T) {
	proxied := func(target string) bool { return target == "via.example.com:443" }
	for target, want := range map[string]string{
		"cp.example.com:443": "cp.example.com", "localhost:1": "localhost",
		"10.0.0.1:443": "", "[::1]:443": "", "passthrough:///a:1": "", "dns:///a:1": "", "unix:/x": "", "a": "", "a:http": "", ":1": "",
		"via.example.com:443": "",
	} {
		if got := newEndpoint(0, target, proxied).host; got != want {
			t.Errorf("%s: %q is looked up, want %q", target, got, want)
		}
	}
}
