package integration

import (
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/config"
)

// TestFullStateTypes: which types are always complete is a setting, and holds on both
// sides. Of such a type an empty first request means everything (SUB-4), and every
// response holds all (RES-2).
func TestFullStateTypes_RES2_SUB4(t *testing.T) {
	p := newPlane(t)
	p.set(endpointType, "a", true)
	p.set(endpointType, "b", true)
	relay := startRelay(t, func(cfg *config.Config) { cfg.FullStateTypes = []string{"lds", "cds", "srds", "eds"} }, p.addr)
	conn := dial(t, relay.addr)
	t.Cleanup(func() { _ = conn.Close() })
	g, err := discovery.NewAggregatedDiscoveryServiceClient(conn).StreamAggregatedResources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	request := &discovery.DiscoveryRequest{TypeUrl: endpointType, Node: &corev3.Node{Id: "client"}}
	if err := g.Send(request); err != nil {
		t.Fatal(err)
	}
	first, err := g.Recv()
	if err != nil || len(first.GetResources()) != 2 {
		t.Fatalf("SUB-4: the first response has %d resources (%v), want 2", len(first.GetResources()), err)
	}
	request.VersionInfo, request.ResponseNonce = first.GetVersionInfo(), first.GetNonce()
	if err := g.Send(request); err != nil {
		t.Fatal(err)
	}
	p.set(endpointType, "a", true)
	second, err := g.Recv()
	if err != nil || len(second.GetResources()) != 2 {
		t.Fatalf("RES-2: the second response has %d resources (%v), want %d", len(second.GetResources()), err, 2)
	}
}
