package integration

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/controlplane"
)

// xdsServer is what gRPC clients are given as their xDS server.
type xdsServer struct {
	name  string
	plane func() *controlplane.ControlPlane
	// relayed: a relay stands between clients and control plane, which it asks in the
	// variant up.
	relayed bool
	up      upstreamVariant
}

// xdsServers are a control plane by itself, which shows that clients and scenarios
// are right, and relays that ask go-control-plane's caches in each gRPC variant.
func xdsServers() []xdsServer {
	linear := func() *controlplane.ControlPlane { return controlplane.New() }
	servers := []xdsServer{{name: "LinearCache", plane: linear}}
	for _, relayed := range []xdsServer{
		{name: "LinearCache", plane: linear, up: upDeltaADS},
		{name: "SnapshotCache", plane: controlplane.NewSnapshot, up: upDeltaADS},
		{name: "SnapshotCache", plane: controlplane.NewSnapshot, up: upSotwADS},
		{name: "SnapshotCache without ADS", plane: controlplane.NewPlainSnapshot, up: upDelta},
		{name: "SnapshotCache without ADS", plane: controlplane.NewPlainSnapshot, up: upSotw},
	} {
		relayed.name = "relay of " + relayed.name + " over " + relayed.up.apiType
		relayed.relayed = true
		servers = append(servers, relayed)
	}
	return servers
}

// TestGRPCClients makes real RPCs to real backends, which clients find over xDS.
func TestGRPCClients(t *testing.T) {
	report := newClientReport(t)
	for _, kind := range clientKinds() {
		t.Run(kind.name, func(t *testing.T) {
			report.require(t, kind)
			for _, server := range xdsServers() {
				playAll(t, report, kind, server)
			}
		})
	}
}

// playAll has one kind of client go through all that there is with one server.
func playAll(t *testing.T, report *clientReport, kind clientKind, server xdsServer) {
	t.Helper()
	for _, names := range []naming{{}, {authority: "services.test"}} {
		for _, s := range rpcScenarios() {
			title := s.title(server)
			t.Run(server.name+"/"+names.String()+"/"+title, func(t *testing.T) {
				w := newWorld(t, kind, server, names)
				report.ran(t, w, server.name, names.String(), title)
				s.play(t, w)
				w.check(t)
			})
		}
	}
}
