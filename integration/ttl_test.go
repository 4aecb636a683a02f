package integration

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/config"
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

// An Envoy that speaks the state of the world announces nothing of ttl: direct and through a relay of either form, what
// has a ttl comes wrapped, and all else bare.
func TestTTLOfEnvoy_TTL1_RES13(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "steady", true)
	p.setTTL(clusterType, "c", time.Hour)
	servers := map[string]string{"direct": p.addr}
	for _, api := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
		servers["relay, "+string(api)] = startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = api }, p.addr).addr
	}
	for name, addr := range servers {
		t.Run(name, func(t *testing.T) {
			conn, err := grpc.NewClient(addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = conn.Close() }()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s, err := visitState(ctx, conn)
			if err == nil {
				err = s.ask(clusterType, "", "", &corev3.Node{Id: "e", UserAgentName: "envoy"})
			}
			if err != nil {
				t.Fatal(err)
			}
			_, payloads, _, err := s.recv()
			if err != nil || len(payloads) != 2 {
				t.Fatalf("got %v, %v", payloads, err)
			}
			var wrapped []*discovery.Resource
			for _, x := range payloads {
				if r := new(discovery.Resource); x.UnmarshalTo(r) == nil {
					wrapped = append(wrapped, r)
				}
			}
			if len(wrapped) != 1 || wrapped[0].GetName() != "c" || wrapped[0].GetTtl().AsDuration() <= 0 || wrapped[0].GetTtl().AsDuration() > time.Hour {
				t.Errorf("wrapped are %v, want c with its ttl", wrapped)
			}
		})
	}
}
