package integration

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// What a client at rest may take on the heap, beyond what gRPC takes for its stream: a
// fifth more than it did when this was written.
const (
	maxPerClient = 4000 // bytes, ten names included
	maxPerName   = 300  // for each further name
	// maxStack is by how much a stream's stack may be larger than that of a server with no
	// logic. Stacks double, and hardly ever shrink again: what grows one costs 8 KiB for each
	// client. The runtime counts stacks in whole spans, of which some are half empty: that
	// is 1 KiB a client more or less, and differs from play to play. So the limit is half of
	// what a grown stack costs.
	maxStack = 4 << 10
)

const (
	restingClients = 1000
	firstNames     = 10
	furtherNames   = 90
)

// memory is what is in use after collections, of which each may halve a stack.
type memory struct{ heap, stacks int64 }

func inUse() memory {
	for range 4 {
		runtime.GC()
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return memory{int64(m.HeapAlloc), int64(m.StackInuse)}
}

// TestMemoryOfClientsAtRest has clients that have what they want, of the relay and of a
// server that writes the same and keeps nothing. What both take, and the clients, who are in
// the same process, is left out by taking the difference. Rules that do not look at names take no more: expressions need much
// stack, but not that of the stream. It runs in a process of its own, in which all goroutines begin with
// a stack of the same size: by default it follows the average of all that there are.
func TestMemoryOfClientsAtRest(t *testing.T) {
	const even = "adaptivestackstart=0"
	if os.Getenv("GODEBUG") != even {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestMemoryOfClientsAtRest$", "-test.v")
		again.Env = append(os.Environ(), "GODEBUG="+even)
		out, err := again.CombinedOutput()
		t.Logf("%s", out)
		if err != nil {
			t.Error(err)
		}
		return
	}
	cp := startControlPlane(t)
	for i := range firstNames + furtherNames {
		name := restingName(i)
		if _, err := cp.UpdateResource(name, &endpointv3.ClusterLoadAssignment{ClusterName: name}); err != nil {
			t.Fatal(err)
		}
	}
	addr, read := startBareServer(t)
	var bare resting
	bare.client, bare.name, bare.stack = costs(t, addr, func(acks int64) bool { return read.Load() >= acks }, func() {})
	for _, rules := range []struct {
		name   string
		change func(*config.Config)
	}{
		{"no rules", nil},
		{"access rules", func(c *config.Config) {
			c.Access.Rules = []config.AccessRule{
				{Name: "others", Match: `node.cluster == "other" && type in [lds, cds] && !node.id.matches("^gateway-[0-9]+$")`, Effect: config.Deny},
				{Name: "all", Match: "true", Effect: config.Allow},
			}
			c.Access.Verify = []config.VerifyRule{{Name: "own", Require: `node.id.matches("^client-[0-9]+$") && node.cluster in ["", "a"]`}}
		}},
		{"an aggregation rule", func(c *config.Config) {
			c.Aggregation.Rules = []config.Rule{{
				Name: "all", Match: `type in [eds, cds] && node.id.matches("^client-[0-9]+$")`, Scope: []string{"node.cluster"},
			}}
		}},
	} {
		t.Run(rules.name, func(t *testing.T) { bare.compare(t, startRelay(t, rules.change, cp.Addr())) })
	}
}

// resting is what a server takes: bytes for each client, and for each further name.
type resting struct{ client, name, stack int64 }

// compare has the clients of a relay at rest.
func (r resting) compare(t *testing.T, relay *testRelay) {
	t.Helper()
	client, name, stack := costs(t, relay.addr, func(acks int64) bool {
		code, page := relay.get(t, "/metrics")
		return code == http.StatusOK && strings.Contains(page, fmt.Sprintf("xdsrelay_downstream_acks_total{type=\"eds\"} %d\n", acks))
	}, relay.log.Forget)
	t.Logf("per client: heap %d, of which gRPC's %d; stack %d, %d; per name: %d, %d", client, r.client, stack, r.stack, name, r.name)
	if own := client - r.client; own > maxPerClient {
		t.Errorf("a client takes %d bytes beyond gRPC's, at most %d are allowed", own, maxPerClient)
	}
	if own := name - r.name; own > maxPerName {
		t.Errorf("a name takes %d bytes, at most %d are allowed", own, maxPerName)
	}
	if own := stack - r.stack; own > maxStack && !raceEnabled { // which needs stack of its own
		t.Errorf("a client takes %d bytes of stack beyond gRPC's, at most %d are allowed", own, maxStack)
	}
	relay.consistent(t)
}

func restingName(i int) string { return fmt.Sprintf("some-cluster/endpoints-%d", i) }

// restingNode lists as many extensions as Envoy does.
func restingNode(client int) *corev3.Node {
	n := &corev3.Node{Id: fmt.Sprint("client-", client)}
	for i := range 300 {
		n.Extensions = append(n.Extensions, &corev3.Extension{
			Name: fmt.Sprintf("envoy.filters.http.filter_%d", i), Category: "envoy.filters.http",
			TypeUrls: []string{fmt.Sprintf("envoy.extensions.filters.http.filter_%d.v3.Filter", i)},
		})
	}
	return n
}

// costs has clients join, and then ask for more. It returns the bytes for each client, and
// for each name beyond the first ones, once the server has read as many acknowledgements.
func costs(t *testing.T, addr string, read func(acks int64) bool, forget func()) (perClient, perName, stack int64) {
	t.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = conn.Close()
	})
	streams := make([]discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, restingClients+1)
	acks := int64(0)
	ask := func(i, from, n int) {
		t.Helper()
		if streams[i] == nil {
			if streams[i], err = discovery.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(ctx); err != nil {
				t.Fatal(err)
			}
		}
		acks += int64(take(t, streams[i], i, from, n))
	}
	rest := func() memory {
		t.Helper()
		waitFor(t, "reading the acknowledgements", func() bool { return read(acks) })
		forget()
		return inUse()
	}
	ask(restingClients, 0, firstNames+furtherNames) // the server has everything from now on
	none := rest()
	for i := range restingClients {
		ask(i, 0, firstNames)
	}
	few := rest()
	for i := range restingClients {
		ask(i, firstNames, furtherNames)
	}
	many := rest()
	return (few.heap - none.heap) / restingClients, (many.heap - few.heap) / (restingClients * furtherNames), (few.stacks - none.stacks) / restingClients
}

// take subscribes to names, waits until all have come, and returns how many responses it
// acknowledged.
func take(t *testing.T, s discovery.AggregatedDiscoveryService_DeltaAggregatedResourcesClient, client, from, n int) (acks int) {
	t.Helper()
	r := &discovery.DeltaDiscoveryRequest{Node: restingNode(client), TypeUrl: endpointType}
	for i := range n {
		r.ResourceNamesSubscribe = append(r.ResourceNamesSubscribe, restingName(from+i))
	}
	if err := s.Send(r); err != nil {
		t.Fatal(err)
	}
	for left := n; left > 0; acks++ {
		resp, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		left -= len(resp.GetResources())
		if err := s.Send(&discovery.DeltaDiscoveryRequest{TypeUrl: endpointType, ResponseNonce: resp.GetNonce()}); err != nil {
			t.Fatal(err)
		}
	}
	return acks
}

// startBareServer starts a server that answers each subscription, and keeps nothing but the number of ACKs.
func startBareServer(t *testing.T) (addr string, acks *atomic.Int64) {
	t.Helper()
	acks = new(atomic.Int64)
	s := &plane.Script{Delta: func(g plane.DeltaStream) error {
		for {
			r, err := g.Recv()
			if err != nil {
				return err
			}
			if r.GetResponseNonce() != "" {
				acks.Add(1)
				continue
			}
			resp := &discovery.DeltaDiscoveryResponse{TypeUrl: r.GetTypeUrl(), Nonce: "n"}
			for _, name := range r.GetResourceNamesSubscribe() {
				payload, err := anypb.New(&endpointv3.ClusterLoadAssignment{ClusterName: name})
				if err != nil {
					return err
				}
				resp.Resources = append(resp.Resources, &discovery.Resource{Name: name, Version: "1", Resource: payload})
			}
			if err := g.Send(resp); err != nil {
				return err
			}
		}
	}}
	lis := ports.Listen(t)
	s.Serve(lis)
	t.Cleanup(s.Stop)
	return lis.Addr().String(), acks
}
