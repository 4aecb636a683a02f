package integration

import (
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// ttlFeature is announced by who can do resource ttl.
const ttlFeature = "xds.config.supports-resource-ttl"

// setTTL is set with a ttl.
func (p *testPlane) setTTL(typeURL, name string, ttl time.Duration) {
	p.Apply(plane.Change{Set: []plane.Resource{{Name: name, Message: message(typeURL, name, ttl.String(), ""), TTL: ttl}}})
}

// beat sends a heartbeat.
func (p *testPlane) beat(typeURL, name string, ttl time.Duration) {
	p.Lifetime(plane.Key{TypeURL: typeURL, Name: name}, ttl)
	p.Heartbeat(typeURL)
}

// told is everything that a client was told of a name: the resources, and how
// often it was removed.
func (c *client) told(name string) (resources []*discovery.Resource, removals int) {
	for _, r := range c.responses() {
		for _, x := range r.Resources {
			if x.Name == name {
				resources = append(resources, x)
			}
		}
		if slices.Contains(r.RemovedResources, name) {
			removals++
		}
	}
	return resources, removals
}

// TestTTL has a control plane give ttls and heartbeats, and die. Short ttls are
// waited for, long ones show what is passed on.
func TestTTL_TTL1_TTL2_TTL3_TTL4(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "steady", true)
	relay := startRelay(t, nil, p.addr)
	join := func(name string, features ...string) *client {
		c := newClient(t, relay.addr, name)
		c.features = features
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(clusterType, []string{"*"}, nil)
		return c
	}
	able, plain := join("able", ttlFeature), join("plain")
	for _, c := range []*client{able, plain} {
		c.awaitHolding(t, clusterType, "steady")
	}
	if got := p.streamsNow()[0].requests[0].GetNode().GetClientFeatures(); !slices.Contains(got, ttlFeature) {
		t.Errorf("TTL-1: the relay announces %v upstream", got)
	}

	p.setTTL(clusterType, "c", time.Hour)
	last := func(ttl time.Duration, payload bool) func() bool {
		return func() bool {
			told, _ := able.told("c")
			if len(told) == 0 {
				return false
			}
			x := told[len(told)-1]
			got := x.GetTtl().AsDuration()
			return got > ttl-patience && got <= ttl && (x.Resource != nil) == payload
		}
	}
	able.await(t, "TTL-1: the ttl", last(time.Hour, true))
	plain.awaitHolding(t, clusterType, "steady", "c")
	p.beat(clusterType, "c", 2*time.Hour)
	able.await(t, "TTL-3: the heartbeat", last(2*time.Hour, false))
	late := join("late", ttlFeature)
	late.await(t, "TTL-2: the remaining ttl", func() bool {
		told, _ := late.told("c")
		return len(told) == 1 && told[0].Resource != nil && told[0].Ttl.AsDuration() < 2*time.Hour
	})

	p.beat(clusterType, "c", 300*time.Millisecond)
	able.await(t, "TTL-4: the last ttl", last(300*time.Millisecond, false))
	p.stop()
	plain.awaitHolding(t, clusterType, "steady")
	fresh := join("fresh", ttlFeature)
	fresh.awaitHolding(t, clusterType, "steady")
	if told, removals := fresh.told("c"); len(told)+removals > 0 {
		t.Errorf("TTL-2: who came after the expiry was told %v, %d removals", told, removals)
	}
	p.restart(t)
	able.await(t, "RES-12: the resource comes back, since it was not presented as held", func() bool {
		told, _ := able.told("c")
		return told[len(told)-1].Resource != nil
	})
	// What came after the expiry on the same stream shows that nothing came before it.
	if told, removals := plain.told("c"); removals != 1 || told[0].Ttl != nil {
		t.Errorf("TTL-2: who cannot do ttl was told %v, %d removals", told, removals)
	}
	if _, removals := able.told("c"); removals > 0 {
		t.Errorf("TTL-2: who can do ttl was told %d removals", removals)
	}
	code, body := relay.get(t, "/metrics")
	if want := `xdsrelay_cache_expired_resources_total{type="cds"} 1`; code != 200 || !strings.Contains(body, want+"\n") {
		t.Errorf("TTL-2: no %s on /metrics", want)
	}
	relay.consistent(t)
}
