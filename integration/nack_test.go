package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

// TestRejectionThroughTiers: a relay is a client of the one before it, and tells it what its
// own clients say.
func TestRejectionThroughTiers_ACK7(t *testing.T) {
	p := newPlane(t)
	p.set(clusterType, "c1", true)
	patient := func(c *config.Config) { c.Upstreams[0].NackWait = config.NackWait(time.Minute) }
	first := startRelay(t, patient, p.addr)
	second := startRelay(t, patient, first.addr)
	picky := newClient(t, second.addr, "picky")
	picky.nack = func(r *discovery.DeltaDiscoveryResponse) string {
		if slices.ContainsFunc(r.GetResources(), func(r *discovery.Resource) bool { return r.GetName() == "c2" }) {
			return "c2 makes no sense"
		}
		return ""
	}
	if err := picky.connect(true); err != nil {
		t.Fatal(err)
	}
	picky.subscribe(clusterType, []string{"*"}, nil)
	picky.awaitHolding(t, clusterType, "c1")
	p.set(clusterType, "c2", true)
	waitFor(t, "the rejection at the control plane", func() bool {
		return slices.ContainsFunc(p.streamsNow()[0].requests, func(r *discovery.DeltaDiscoveryRequest) bool {
			return strings.HasSuffix(r.GetErrorDetail().GetMessage(), "picky: c2 makes no sense")
		})
	})
	p.set(clusterType, "c3", true)
	picky.awaitHolding(t, clusterType, "c1", "c3")
}

// TestRejectionReachesGoControlPlane: a real control plane is told of a rejection. What it sends again unchanged is
// offered to the client again and rejected once a second, so that neither side spins, and in the end acknowledged, as is
// what it repairs. The log says what is served.
func TestRejectionReachesGoControlPlane_ACK7(t *testing.T) {
	planes := map[string]func() *gocontrolplane.ControlPlane{
		"linear":   func() *gocontrolplane.ControlPlane { return gocontrolplane.New(gocontrolplane.Types()...) },
		"snapshot": gocontrolplane.NewSnapshot,
	}
	for kind, plane := range planes {
		for _, api := range []config.APIType{config.AggregatedDeltaGRPC, config.AggregatedGRPC} {
			t.Run(fmt.Sprintf("%s %s", kind, api), func(t *testing.T) {
				cp := plane()
				if err := cp.Start(t.Context(), "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(cp.Close)
				update(t, cp, "c1", cluster("c1", time.Second))
				relay := startRelay(t, func(c *config.Config) {
					c.Upstreams[0].APIType = api
				}, cp.Addr())
				rejected(t, cp, relay, kind == "snapshot" && api == config.AggregatedGRPC)
			})
		}
	}
}

// rejected plays it. again says that the control plane sends again at once what is rejected.
func rejected(t *testing.T, cp *gocontrolplane.ControlPlane, relay *testRelay, again bool) {
	t.Helper()
	picky := newClient(t, relay.addr, "picky")
	wrong := func(r *discovery.Resource) bool {
		var c clusterv3.Cluster
		return r.GetName() == "c2" && r.GetResource().UnmarshalTo(&c) == nil && c.GetConnectTimeout().AsDuration() == time.Second
	}
	refused := 0
	picky.nack = func(r *discovery.DeltaDiscoveryResponse) string {
		if !slices.ContainsFunc(r.GetResources(), wrong) {
			return ""
		}
		refused++
		return "c2 makes no sense"
	}
	if err := picky.connect(true); err != nil {
		t.Fatal(err)
	}
	picky.subscribe(clusterType, []string{"*"}, nil)
	picky.awaitHolding(t, clusterType, "c1")
	update(t, cp, "c2", cluster("c2", time.Second))
	answered := func() bool {
		s := cp.Stats()
		return s.Nacks > 0 && s.Acks+s.Nacks == s.Responses
	}
	waitFor(t, "the rejection upstream", answered)
	if reason := cp.Stats().Streams[0].Nack; reason != "picky: c2 makes no sense" {
		t.Errorf("the control plane is told %q", reason)
	}
	update(t, cp, "c3", cluster("c3", time.Second)) // a snapshot has c2 in it again
	picky.awaitHolding(t, clusterType, "c1", "c3")
	waitFor(t, "all else acknowledged", answered)
	if _, page := relay.get(t, "/metrics"); !strings.Contains(page, `xdsrelay_downstream_clients{state="rejecting",type="cds"} 1`) {
		t.Error("the client is not counted as one that rejects clusters")
	}
	update(t, cp, "c2", cluster("c2", time.Minute))
	picky.awaitHolding(t, clusterType, "c1", "c2", "c3")
	waitFor(t, "the repair acknowledged", func() bool {
		_, page := relay.get(t, "/metrics")
		return answered() && strings.Contains(page, `xdsrelay_downstream_clients{state="rejecting",type="cds"} 0`)
	})
	nacks := cp.Stats().Nacks
	picky.mu.Lock()
	defer picky.mu.Unlock()
	if again && (refused < nacks || nacks < 2 || nacks > 10) || !again && (refused != 1 || nacks != 1) {
		t.Errorf("the client rejected it %d times, and the control plane was told %d times", refused, nacks)
	}
	if log := relay.log.String(); !strings.Contains(log, `cached="the response: a client rejected it`) || strings.Contains(log, `cached="the resources from before"`) {
		t.Errorf("the log says %s", log)
	}
}

// TestRefusedTypeIsShown: a type that the control plane does not serve goes beside
// after it ended the stream once, everybody else is served, and an operator sees it with the reason.
func TestRefusedTypeIsShown_OPS2_SUR8(t *testing.T) {
	cp := gocontrolplane.New(clusterType)
	if err := cp.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	update(t, cp, "c1", cluster("c1", time.Second))
	relay := startRelay(t, nil, cp.Addr())
	c := newClient(t, relay.addr, "a")
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "c1")
	c.subscribe(listenerType, []string{"l1"}, nil)
	waitFor(t, "the type on /upstreams", func() bool {
		_, body := relay.get(t, "/upstreams")
		return strings.Contains(body, `"refused": {`) && strings.Contains(body, listenerType) && strings.Contains(body, "no cache defined")
	})
	update(t, cp, "c2", cluster("c2", time.Second))
	c.awaitHolding(t, clusterType, "c1", "c2")
}
