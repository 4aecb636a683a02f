package integration

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// guarded are clusters with endpoints, and the one listener that leads to them.
func guarded(clusters int) (names []string, all map[string]proto.Message) {
	all = map[string]proto.Message{listenerType + " front": &listenerv3.Listener{Name: "front"}}
	for i := range clusters {
		name := fmt.Sprintf("c%02d", i)
		names = append(names, name)
		all[clusterType+" "+name] = cluster(name, time.Second)
		all[endpointType+" "+name] = &endpointv3.ClusterLoadAssignment{
			ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: []*endpointv3.LbEndpoint{{}}}},
		}
	}
	return names, all
}

func fill(t *testing.T, cp *gocontrolplane.ControlPlane, all map[string]proto.Message) {
	t.Helper()
	for key, m := range all {
		if _, err := cp.UpdateResource(key[strings.Index(key, " ")+1:], proto.Clone(m)); err != nil {
			t.Fatal(err)
		}
	}
}

func startFilled(t *testing.T, cp *gocontrolplane.ControlPlane, all map[string]proto.Message) *gocontrolplane.ControlPlane {
	t.Helper()
	fill(t, cp, all)
	if err := cp.Start(t.Context(), net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cp.Close)
	return cp
}

// emptied restarts a control plane without anything.
func emptied(t *testing.T, cp *gocontrolplane.ControlPlane, all map[string]proto.Message) {
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
	build func() *gocontrolplane.ControlPlane
	api   config.APIType
}{
	{"linear, incremental", func() *gocontrolplane.ControlPlane { return gocontrolplane.New() }, "AGGREGATED_DELTA_GRPC"},
	{"snapshot, incremental", gocontrolplane.NewSnapshot, "AGGREGATED_DELTA_GRPC"},
	{"snapshot, state of the world", gocontrolplane.NewSnapshot, "AGGREGATED_GRPC"},
	{"linear, incremental, a stream for each type", func() *gocontrolplane.ControlPlane { return gocontrolplane.New() }, "DELTA_GRPC"},
	{"snapshot, state of the world, a stream for each type", gocontrolplane.NewPlainSnapshot, "GRPC"},
}

// go-control-plane is restarted empty, and comes back complete. No client of the relay loses
// anything, and one that comes meanwhile gets all.
func TestGuardEmptyControlPlane_SUR3(t *testing.T) {
	for _, k := range planesThatEmpty {
		t.Run(k.name, func(t *testing.T) { testEmptyControlPlane(t, k.build(), k.api, 30) })
		t.Run(k.name+", a small scope", func(t *testing.T) { testEmptyControlPlane(t, k.build(), k.api, 2) })
	}
}

func testEmptyControlPlane(t *testing.T, cp *gocontrolplane.ControlPlane, api config.APIType, clusters int) {
	t.Helper()
	names, all := guarded(clusters)
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
		return strings.Contains(page, fmt.Sprintf("removed %d resources of %s", clusters, clusterType)) && strings.Contains(page, "removed 1 resources of "+listenerType)
	})
	if log := relay.log.String(); strings.Count(log, "an upstream removes many resources at once") < 2 {
		t.Errorf("logged %s", log)
	}
	if held := relay.metric(t, "xdsrelay_table_held", `type="cds"`); held != clusters {
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

// What the control plane really removed is gone after the time, be it all or 80 %. It stays gone.
func TestGuardTime_SUR3(t *testing.T) {
	t.Parallel() // most of it is waiting
	const hold = time.Second
	for _, k := range planesThatEmpty {
		for _, kept := range []int{0, 6} {
			t.Run(fmt.Sprintf("%s, %d of 30 stay", k.name, kept), func(t *testing.T) {
				t.Parallel()
				names, all := guarded(30)
				cp := startFilled(t, k.build(), all)
				relay := startRelay(t, func(c *config.Config) {
					c.Upstreams[0].APIType = k.api
					c.Upstreams[0].Guard.Hold = config.Duration(hold)
				}, cp.Addr())
				c := joined(t, relay, "client")
				asksForGuarded(c, names)
				c.awaitHolding(t, clusterType, names...)
				c.awaitHolding(t, endpointType, names...)
				c.awaitHolding(t, listenerType, "front")
				begin := time.Now()
				emptied(t, cp, without(all, names[:kept]))
				c.awaitHolding(t, clusterType, names[:kept]...)
				if took := time.Since(begin); took < hold {
					t.Errorf("the clusters are gone after %v", took)
				}
				if kept == 0 {
					c.awaitHolding(t, listenerType)
				} else {
					c.awaitHolding(t, listenerType, "front")
				}
				if k.api == "AGGREGATED_DELTA_GRPC" || k.api == "DELTA_GRPC" { // the state of the world has no word for it
					c.awaitHolding(t, endpointType, names[:kept]...)
				}
				relay.consistent(t)
				if held := relay.metric(t, "xdsrelay_cache_held_losses_total", `type="cds"`); held != 1 {
					t.Errorf("%v losses were held", held)
				}
				if held := relay.metric(t, "xdsrelay_table_held", `type="cds"`); held != 0 {
					t.Errorf("%v clusters are held", held)
				}
			})
		}
	}
}

// without leaves out the clusters and endpoints of some names, and the listener if there are any.
func without(all map[string]proto.Message, names []string) map[string]proto.Message {
	rest := maps.Clone(all)
	for _, n := range names {
		delete(rest, clusterType+" "+n)
		delete(rest, endpointType+" "+n)
		delete(rest, listenerType+" front")
	}
	return rest
}

// Endpoint sets that all become empty are held, in clients of either form. Sets with fewer endpoints
// are not.
func TestGuardEndpointSets_SUR3(t *testing.T) {
	for _, k := range planesThatEmpty {
		t.Run(k.name, func(t *testing.T) {
			names, all := guarded(30)
			sets := func(n int) map[string]proto.Message {
				changed := make(map[string]proto.Message)
				for _, name := range names {
					changed[endpointType+" "+name] = &endpointv3.ClusterLoadAssignment{
						ClusterName: name, Endpoints: []*endpointv3.LocalityLbEndpoints{{LbEndpoints: make([]*endpointv3.LbEndpoint, n)}},
					}
					for i := range n {
						changed[endpointType+" "+name].(*endpointv3.ClusterLoadAssignment).Endpoints[0].LbEndpoints[i] = &endpointv3.LbEndpoint{}
					}
				}
				return changed
			}
			maps.Copy(all, sets(40))
			cp := startFilled(t, k.build(), all)
			relay := startRelay(t, func(c *config.Config) { c.Upstreams[0].APIType = k.api }, cp.Addr())
			clients := []xdsClient{
				newVariantClient(t, deltaADS, relay.address(deltaADS), "incremental"),
				newVariantClient(t, sotwADS, relay.address(sotwADS), "whole"),
			}
			endpointsOf := func(c xdsClient, name string) int {
				a := new(endpointv3.ClusterLoadAssignment)
				if err := proto.Unmarshal([]byte(c.common().payloads(endpointType)[name]), a); err != nil {
					t.Fatal(err)
				}
				n := 0
				for _, l := range a.GetEndpoints() {
					n += len(l.GetLbEndpoints())
				}
				return n
			}
			have := func(want int, clients ...xdsClient) {
				t.Helper()
				for _, c := range clients {
					other := func(name string) bool { return endpointsOf(c, name) != want }
					if !c.common().happens(func() bool { return !slices.ContainsFunc(names, other) }) {
						t.Fatalf("client %s does not have %d endpoints of each set", c.common().node, want)
					}
				}
			}
			join := func(c xdsClient) {
				t.Helper()
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
				c.subscribe(endpointType, names, nil)
			}
			comesBackWith := func(n int) {
				t.Helper()
				cp.Stop()
				fill(t, cp, sets(n))
				if err := cp.Restart(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			for _, c := range clients {
				join(c)
			}
			have(40, clients...)
			comesBackWith(15)
			have(15, clients...)
			if held := relay.metric(t, "xdsrelay_cache_held_losses_total", `type="eds"`); held != 0 {
				t.Errorf("%v losses were held though no set is empty", held)
			}

			comesBackWith(0)
			waitFor(t, "the relay to hold the empty sets", func() bool {
				return relay.metric(t, "xdsrelay_table_held", `type="eds"`) == len(names)
			})
			late := newVariantClient(t, deltaADS, relay.address(deltaADS), "late")
			join(late)
			have(15, append(clients, late)...)
			comesBackWith(16)
			have(16, append(clients, late)...)
			if held := relay.metric(t, "xdsrelay_table_held", `type="eds"`); held != 0 {
				t.Errorf("%v sets are held", held)
			}
			relay.consistent(t)
		})
	}
}

// Secrets that are revoked are gone at once, however many they are.
func TestGuardRevokedSecrets_SUR3(t *testing.T) {
	p := newPlane(t)
	var names []string
	for i := range 30 {
		names = append(names, fmt.Sprintf("s%02d", i))
		p.set(secretType, names[i], false)
		p.set(clusterType, fmt.Sprintf("c%02d", i), true)
	}
	relay := startRelay(t, nil, p.addr)
	var clients []*holdings
	for _, v := range []variant{deltaADS, delta} {
		c := newVariantClient(t, v, relay.address(v), "client of "+v.name)
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(secretType, names, nil)
		c.common().awaitHolding(t, secretType, names...)
		clients = append(clients, c.common())
	}
	p.stop()
	for _, n := range names {
		p.unset(secretType, n)
	}
	p.restart(t)
	for _, c := range clients {
		c.awaitHolding(t, secretType)
	}
	if held := relay.metric(t, "xdsrelay_cache_held_losses_total", `type="sds"`); held != 0 {
		t.Errorf("%v losses of secrets were held", held)
	}
	relay.consistent(t)
}

// Of two relays in a row the first one holds a loss, and the second one does not hold it again
// (STR-10), unless guard.behind_relays says so.
func TestGuardTiers_SUR3_STR10(t *testing.T) {
	t.Parallel() // most of it is waiting
	const hold = time.Second
	for _, api := range []config.APIType{"AGGREGATED_DELTA_GRPC", "AGGREGATED_GRPC"} {
		for _, behind := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, behind_relays %t", api, behind), func(t *testing.T) {
				t.Parallel()
				names, all := guarded(30)
				cp := startFilled(t, gocontrolplane.NewSnapshot(), all)
				first := startRelay(t, func(c *config.Config) { c.Upstreams[0].Guard.Hold = config.Duration(hold) }, cp.Addr())
				second := startRelay(t, func(c *config.Config) {
					c.Upstreams[0].APIType = api
					c.Upstreams[0].Guard.BehindRelays = behind
					// The first relay sends the loss of clusters after that of listeners (ADS-4).
					c.Upstreams[0].Settle = config.Duration(10 * time.Second)
				}, first.addr)
				c := joined(t, second, "client")
				asksForGuarded(c, names)
				c.awaitHolding(t, clusterType, names...)
				c.awaitHolding(t, listenerType, "front")

				begin := time.Now()
				emptied(t, cp, all)
				losses := func(r *testRelay) int {
					return r.metric(t, "xdsrelay_cache_held_losses_total", `type="cds"`)
				}
				if !behind {
					c.awaitHolding(t, clusterType)
					c.awaitHolding(t, listenerType)
				} else {
					waitFor(t, "the second relay to hold it too", func() bool { return losses(second) == 1 })
					c.awaitHolding(t, clusterType, names...)
					c.awaitHolding(t, listenerType, "front")
				}
				if took := time.Since(begin); took < hold {
					t.Errorf("the first relay gave it up after %v", took)
				}
				if n := losses(first); n != 1 {
					t.Errorf("the first relay held %v losses, want 1", n)
				}
				if n := losses(second); (n > 0) != behind {
					t.Errorf("the second relay held %v losses", n)
				}
				first.consistent(t)
				second.consistent(t)
			})
		}
	}
}
