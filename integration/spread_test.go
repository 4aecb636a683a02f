package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// scopesAt gives the replica of each scope of the first upstream that has a stream, or polls.
func (r *testRelay) scopesAt(t testing.TB) map[string]string {
	t.Helper()
	_, page := r.get(t, "/upstreams")
	var upstreams []struct {
		Sessions []struct {
			Scope    string `json:"scope"`
			Endpoint string `json:"endpoint"`
			Streams  int    `json:"streams"`
		} `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(page), &upstreams); err != nil {
		t.Fatal(err)
	}
	at := make(map[string]string)
	for _, s := range upstreams[0].Sessions {
		if s.Streams > 0 {
			at[s.Scope] = s.Endpoint
		}
	}
	return at
}

// spread is a number of scopes over a number of replicas: each has from least to most.
type spread struct{ scopes, replicas, least, most int }

// even checks how many scopes each replica has.
func (s spread) even(t testing.TB, at map[string]string) {
	t.Helper()
	sums := make(map[string]int)
	for _, address := range at {
		sums[address]++
	}
	for address, n := range sums {
		if n < s.least || n > s.most {
			t.Errorf("%s has %d scopes of %v, want %d to %d", address, n, sums, s.least, s.most)
		}
	}
	if len(sums) != s.replicas {
		t.Errorf("scopes at %v, want %d replicas", sums, s.replicas)
	}
}

// onlyMoved checks that scopes have left one replica, and nothing else moved.
func onlyMoved(t testing.TB, before, after map[string]string, from string) {
	t.Helper()
	for scope, address := range before {
		if address != from && after[scope] != address {
			t.Errorf("%s moved from %s to %s", scope, address, after[scope])
		}
	}
}

// Scopes that move to another replica, and back, are no matter to clients of either form,
// whatever the control plane speaks: what they hold is compared, and is not sent again. A
// hundred scopes over three replicas are 25 to 42 each; of one that dies only its own scopes
// move, and they return with it.
func TestSpreadOverReplicas_LOC6_RES12(t *testing.T) {
	for _, up := range upstreamVariants {
		if up.files {
			continue
		}
		size := spread{8, 2, 3, 5}
		switch config.APIType(up.apiType) {
		case config.AggregatedDeltaGRPC, config.AggregatedGRPC:
			size = spread{100, 3, 25, 42}
		}
		t.Run(fmt.Sprintf("%s/%d scopes over %d", up.apiType, size.scopes, size.replicas), func(t *testing.T) { size.play(t, up) })
	}
}

func (s spread) play(t *testing.T, up upstreamVariant) {
	t.Helper()
	planes, addresses := make([]*testPlane, s.replicas), make([]string, s.replicas)
	for i := range planes {
		p := newPlane(t)
		planes[i], p.plain = p, up.rest
		p.set(clusterType, "c1", true)
		p.set(clusterType, "c2", true)
		p.set(endpointType, "e1", true)
		if addresses[i] = p.addr; up.rest {
			addresses[i] = p.RESTAddr()
		}
	}
	relay := startRelay(t, func(c *config.Config) {
		c.Aggregation.Otherwise = config.Isolate
		u := &c.Upstreams[0]
		u.APIType, u.Endpoints, u.Failback = config.APIType(up.apiType), [][]string{addresses}, config.Duration(time.Second)
		u.ResponseTimeout = 0 // a replica that takes connections is well: its scopes return at once
	}, addresses[0])
	var clients []xdsClient
	var logs []*transcript
	for i := range s.scopes {
		var c xdsClient
		if node := fmt.Sprint("node-", i); i%2 == 0 {
			c = newClient(t, relay.addr, node)
		} else {
			c = newSotwClient(t, sotwADS, relay.addr, node)
		}
		log := record(c)
		if err := c.connect(false); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*"}, nil)
		c.subscribe(endpointType, []string{"e1"}, nil)
		clients, logs = append(clients, c), append(logs, log)
	}
	for _, c := range clients {
		c.common().awaitHolding(t, clusterType, "c1", "c2")
		c.common().awaitHolding(t, endpointType, "e1")
	}
	await := func(what string, is func(at map[string]string) bool) (at map[string]string) {
		t.Helper()
		// The machine may be busy, and a hundred scopes do not move all at once.
		if _, ok := wait.Until(2*time.Minute, func() bool { at = relay.scopesAt(t); return len(at) == s.scopes && is(at) }); !ok {
			t.Fatalf("never: %s: %v", what, at)
		}
		return at
	}
	home := await("streams of all scopes", func(map[string]string) bool { return true })
	s.even(t, home)
	for _, log := range logs {
		log.begin()
	}
	for i, p := range planes {
		p.stop()
		without := await("streams elsewhere", func(at map[string]string) bool {
			return !slices.Contains(slices.Collect(maps.Values(at)), addresses[i])
		})
		onlyMoved(t, home, without, addresses[i])
		p.restart(t)
		await("streams where they were", func(at map[string]string) bool { return maps.Equal(at, home) })
	}
	for _, p := range planes { // everything on its way comes before this
		p.set(clusterType, "c3", true)
	}
	for i, c := range clients {
		want := "CDS +c3"
		if _, sotw := c.(*sotwClient); sotw {
			want = "CDS c1 c2 c3"
		}
		c.common().awaitHolding(t, clusterType, "c1", "c2", "c3")
		if got := logs[i].all(); !slices.Equal(got, []string{want}) {
			t.Errorf("client %d was sent %q, want %q", i, got, want)
		}
		for _, fault := range c.common().found() {
			t.Error(fault)
		}
		if !c.connected() {
			t.Errorf("client %d was disconnected", i)
		}
	}
	relay.consistent(t)
}
