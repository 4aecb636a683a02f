package integration

import (
	"fmt"
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// loadPatience is how long what must happen may take, and an RPC: the machine may be busy with
// other things beside the clients.
const loadPatience = 2 * time.Minute

// zonedEndpoints are endpoints in two regions, here and there, whose answers are the region. Some
// RPCs are dropped, in percent.
func zonedEndpoints(t *testing.T, name string, drops uint32) *endpointv3.ClusterLoadAssignment {
	t.Helper()
	all := naming{}.endpoints(name, newBackend(t, "here"))
	there := naming{}.endpoints(name, newBackend(t, "there")).GetEndpoints()
	there[0].Locality = &corev3.Locality{Region: "there"}
	all.Endpoints = append(all.Endpoints, there...)
	all.Policy = &endpointv3.ClusterLoadAssignment_Policy{DropOverloads: []*endpointv3.ClusterLoadAssignment_Policy_DropOverload{{
		Category: "throttle", DropPercentage: &typev3.FractionalPercent{Numerator: drops},
	}}}
	return all
}

// made are RPCs, as the control plane is to be told of them.
type made map[string]float64

// note takes what came of an RPC to a cluster: who answered, or that it was dropped.
func (m made) note(cluster string, o outcome) error {
	at := cluster + "/" + cluster // its endpoints have its name
	switch {
	case o.Code == codes.OK:
		for _, field := range []string{"issued", "successful"} {
			m[at+"/"+o.Backend+"/ p0 "+field]++
		}
	case o.Code == codes.Unavailable && strings.Contains(strings.ToLower(o.Message), "drop"):
		m[at+" dropped"]++
		m[at+" dropped throttle"]++
	default:
		return fmt.Errorf("an RPC failed: %+v", o)
	}
	return nil
}

// reportingPlane has what gRPC clients of each kind need to make RPCs to a backend, and to report
// them to whom they have it from. All resources have the name of the kind.
func reportingPlane(t *testing.T, kinds []clientKind) *loadPlane {
	t.Helper()
	p := newLoadPlane(t)
	p.plain = true
	var n naming
	put := func(typeURL, name string, message proto.Message) {
		payload, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		p.put(typeURL, name, payload)
	}
	for _, kind := range kinds {
		cluster := n.cluster(kind.name, kind.name)
		cluster.LrsServer = &corev3.ConfigSource{ConfigSourceSpecifier: &corev3.ConfigSource_Self{Self: &corev3.SelfConfigSource{}}}
		put(listenerType, kind.name, n.listener(kind.name, kind.name))
		put(routeType, kind.name, n.route(kind.name, kind.name))
		drops := uint32(30)
		if kind.name == "grpc-java" {
			// A drop during a report may be in none: LoadStatsManager2 reads its drops, and
			// clears them then. On a busy machine that happens.
			drops = 0
		}
		put(clusterType, kind.name, cluster)
		put(endpointType, kind.name, zonedEndpoints(t, kind.name, drops))
	}
	return p
}

// reportingClient is a client, and the service of its kind.
type reportingClient struct {
	rpcClient

	service string
}

// gRPC clients of all kinds that this machine has report to the relay, as their cluster tells
// them (lrs_server: self): the control plane is told each of their RPCs, once.
func TestGRPCLoadReports_LRS1(t *testing.T) {
	t.Parallel() // most of it is waiting
	r := newReport(t)
	kinds := clientKinds()
	p := reportingPlane(t, kinds)
	relay := startRelay(t, nil, p.addr)
	calls := make(made)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("of the RPCs %v the control plane was told %v", calls, p.loads.Book.Now())
		}
	})
	settle := func(what string) {
		t.Helper()
		if _, ok := wait.Until(loadPatience, func() bool { return maps.Equal(p.loads.Book.Now()["xdsrelay"], calls) }); !ok {
			t.Fatalf("%s: the control plane is not told of all RPCs", what)
		}
	}
	call := func(what string, clients []reportingClient) {
		t.Helper()
		for _, c := range clients {
			for range 25 {
				if err := calls.note(c.service, c.call(naming{}.target(c.service))); err != nil {
					t.Fatalf("%s: %s: %v", what, c.version(), err)
				}
			}
		}
		settle(what)
	}
	join := func() (clients []reportingClient) {
		for _, kind := range kinds {
			if r.has(t, kind.name, kind.missing) {
				clients = append(clients, reportingClient{kind.start(t, naming{}.bootstrap(t, "node", relay.addr), loadPatience), kind.name})
			}
		}
		return clients
	}
	clients := join()
	for begun := time.Now(); ; {
		call("after clients came", clients)
		p.loads.Break()
		call("after the stream broke", clients)
		next := join()
		call("while others come", append(next, clients...))
		for _, c := range clients {
			c.close()
		}
		clients = next
		call("after some left", clients)
		if time.Since(begun) >= loadTime(t) {
			break
		}
	}
	p.checkLoads(t)
	for _, c := range clients {
		r.ran(t, c.version, "load reports")
	}
}

// loadTimeVariable has the test last longer: a soak sets it.
const loadTimeVariable = "XDSRELAY_LOAD_TIME"

func loadTime(t *testing.T) time.Duration {
	t.Helper()
	text := os.Getenv(loadTimeVariable)
	if text == "" {
		return 0
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
