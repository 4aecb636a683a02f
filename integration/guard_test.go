package integration

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/controlplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// guarded are 30 clusters with endpoints, and the one listener that leads to them.
func guarded() (names []string, all map[string]proto.Message) {
	all = map[string]proto.Message{listenerType + " front": &listenerv3.Listener{Name: "front"}}
	for i := range 30 {
		name := fmt.Sprintf("c%02d", i)
		names = append(names, name)
		all[clusterType+" "+name] = cluster(name, time.Second)
		all[endpointType+" "+name] = &endpointv3.ClusterLoadAssignment{
			ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{}}}},
		}
	}
	return names, all
}

func fill(t *testing.T, cp *controlplane.ControlPlane, all map[string]proto.Message) {
	t.Helper()
	for key, m := range all {
		if _, err := cp.UpdateResource(key[strings.Index(key, " ")+1:], proto.Clone(m)); err != nil {
			t.Fatal(err)
		}
	}
}

func startFilled(t *testing.T, cp *controlplane.ControlPlane, all map[string]proto.Message) *controlplane.ControlPlane {
	t.Helper()
	fill(t, cp, all)
	if err := cp.Start(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	return cp
}

// emptied restarts a control plane without anything.
func emptied(t *testing.T, cp *controlplane.ControlPlane, all map[string]proto.Message) {
	t.Helper()
	cp.Stop()
	for key := range all {
		typeURL, name, _ := strings.Cut(key, " ")
		if err := cp.DeleteResource(typeURL, name); err != nil {
			t.Fatal(err)
		}
	}
	if err := cp.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func asksForGuarded(c xdsClient, names []string) {
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, names, nil)
	c.subscribe(listenerType, []string{"*"}, nil)
}

// planesThatEmpty are go-control-plane's caches that tell of an empty state. A LinearCache of the
// state of the world answers nothing while it is empty.
var planesThatEmpty = []struct {
	name  string
	build func() *controlplane.ControlPlane
	api   config.APIType
}{
	{"linear, incremental", func() *controlplane.ControlPlane { return controlplane.New() }, "AGGREGATED_DELTA_GRPC"},
	{"snapshot, incremental", controlplane.NewSnapshot, "AGGREGATED_DELTA_GRPC"},
	{"snapshot, state of the world", controlplane.NewSnapshot, "AGGREGATED_GRPC"},
}

// go-control-plane is restarted empty, and comes back complete. No client of the relay loses
// anything, and one that comes meanwhile gets all.
func TestGuardEmptyControlPlane_SUR3(t *testing.T) {
	for _, k := range planesThatEmpty {
		t.Run(k.name, func(t *testing.T) { testEmptyControlPlane(t, k.build(), k.api) })
	}
}

func testEmptyControlPlane(t *testing.T, cp *controlplane.ControlPlane, api config.APIType) {
	t.Helper()
	names, all := guarded()
	startFilled(t, cp, all)
	relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = api }, cp.Addr())
	clients := []xdsClient{
		newVariantClient(t, deltaADS, relay.address(deltaADS), "incremental"),
		newVariantClient(t, sotwADS, relay.address(sotwADS), "whole"),
	}
	for _, c := range clients {
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		asksForGuarded(c, names)
		c.common().awaitHolding(t, clusterType, names...)
		c.common().awaitHolding(t, endpointType, names...)
		c.common().awaitHolding(t, listenerType, "front")
	}
	before := make(map[string]int)
	for _, c := range clients {
		before[c.common().node] = c.common().count(clusterType)
	}

	emptied(t, cp, all)
	waitFor(t, "the relay to hold the loss of both types", func() bool {
		code, page := relay.get(t, "/readyz")
		if code != 200 {
			t.Fatalf("not ready: %s", page)
		}
		return strings.Contains(page, "removed 30 resources of "+clusterType) && strings.Contains(page, "removed 1 resources of "+listenerType)
	})
	if log := relay.log.String(); strings.Count(log, "an upstream removes many resources at once") < 2 {
		t.Errorf("logged %s", log)
	}
	if held := relay.metric(t, "xdsrelay_table_held", `type="cds"`); held != 30 {
		t.Errorf("%v clusters are held", held)
	}
	late := newVariantClient(t, deltaADS, relay.address(deltaADS), "late")
	if err := late.connect(true); err != nil {
		t.Fatal(err)
	}
	asksForGuarded(late, names)
	late.common().awaitHolding(t, clusterType, names...)
	late.common().awaitHolding(t, endpointType, names...)
	late.common().awaitHolding(t, listenerType, "front")

	cp.Stop()
	fill(t, cp, all)
	if err := cp.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the relay to hold nothing", func() bool {
		_, page := relay.get(t, "/readyz")
		return !strings.Contains(page, "held")
	})
	relay.consistent(t)
	for _, c := range append(clients, late) {
		c.common().awaitHolding(t, clusterType, names...)
		c.common().awaitHolding(t, endpointType, names...)
		c.common().awaitHolding(t, listenerType, "front")
		if n, known := before[c.common().node]; known && c.common().count(clusterType) != n {
			t.Errorf("client %s was sent %d responses", c.common().node, c.common().count(clusterType)-n)
		}
	}
}

// What the control plane really removed is gone after the time.
func TestGuardTime_SUR3(t *testing.T) {
	for _, k := range planesThatEmpty {
		t.Run(k.name, func(t *testing.T) {
			names, all := guarded()
			cp := startFilled(t, k.build(), all)
			relay := startRelay(t, func(c *config.Config) {
				c.Upstreams[0].APIType = k.api
				c.Upstreams[0].Guard.Hold = config.Duration(time.Second)
			}, cp.Addr())
			c := joined(t, relay, "client")
			c.subscribe(clusterType, []string{"*"}, nil)
			c.subscribe(listenerType, []string{"*"}, nil)
			c.awaitHolding(t, clusterType, names...)
			emptied(t, cp, all)
			c.awaitHolding(t, clusterType)
			c.awaitHolding(t, listenerType)
			relay.consistent(t)
			if held := relay.metric(t, "xdsrelay_cache_held_losses_total", `type="cds"`); held != 1 {
				t.Errorf("%v losses were held", held)
			}
		})
	}
}
