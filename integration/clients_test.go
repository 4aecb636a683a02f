package integration

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/controlplane"
)

// relayServesSotW says that the relay speaks SotW ADS downstream, which is what
// gRPC clients speak. While it is false, clients run against control planes only,
// and what would run through a relay is listed as switched off.
const relayServesSotW = false

// xdsServer is what gRPC clients are given as their xDS server.
type xdsServer struct {
	name  string
	plane func() *controlplane.ControlPlane
	// relayed: a relay stands between clients and control plane, which it follows
	// over incremental ADS.
	relayed bool
}

// xdsServers are a control plane by itself, which shows that clients and scenarios
// are right, and relays of both kinds of go-control-plane's caches.
func xdsServers() []xdsServer {
	linear := func() *controlplane.ControlPlane { return controlplane.New() }
	return []xdsServer{
		{name: "LinearCache", plane: linear},
		{name: "relay of LinearCache", plane: linear, relayed: true},
		{name: "relay of SnapshotCache", plane: controlplane.NewSnapshot, relayed: true},
	}
}

// available reports whether this build can run it.
func (s xdsServer) available() bool { return relayServesSotW || !s.relayed }

// TestGRPCClients makes real RPCs to real backends, which clients find over xDS.
func TestGRPCClients(t *testing.T) {
	report := newClientReport(t)
	for _, kind := range clientKinds() {
		t.Run(kind.name, func(t *testing.T) {
			report.require(t, kind)
			for _, server := range xdsServers() {
				if server.available() {
					playAll(t, report, kind, server)
				} else {
					report.add("SWITCHED OFF", kind.name, server.name, "relayServesSotW is false")
				}
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
