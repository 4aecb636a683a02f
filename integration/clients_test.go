package integration

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

// xdsServer is what gRPC clients are given as their xDS server.
type xdsServer struct {
	name  string
	plane func(testing.TB) managementServer
	// relayed: a relay stands between clients and control plane, which it asks in the
	// variant up.
	relayed bool
	up      upstreamVariant
	// ordered: the relay is told of changes in the order in which they are made.
	ordered bool
	// settings are those of the relay beside up; nil: none.
	settings func(*config.Config)
}

// xdsServers are a control plane by itself, which shows that clients and scenarios
// are right, and relays that ask go-control-plane's caches in each gRPC variant.
func xdsServers() []xdsServer {
	linear := func(testing.TB) managementServer { return gocontrolplane.New() }
	snapshot := func(testing.TB) managementServer { return gocontrolplane.NewSnapshot() }
	plain := func(testing.TB) managementServer { return gocontrolplane.NewPlainSnapshot() }
	return []xdsServer{
		{name: "LinearCache", plane: linear},
		xdsServer{name: "LinearCache", plane: linear, ordered: true}.behind(upDeltaADS),
		xdsServer{name: "SnapshotCache", plane: snapshot, ordered: true}.behind(upDeltaADS),
		xdsServer{name: "SnapshotCache", plane: snapshot}.behind(upSotwADS),
		xdsServer{name: "SnapshotCache without ADS", plane: plain}.behind(upDelta),
		xdsServer{name: "SnapshotCache without ADS", plane: plain}.behind(upSotw),
	}
}

// behind is a relay of the server, which it asks in the variant up.
func (s xdsServer) behind(up upstreamVariant) xdsServer {
	s.name = "relay of " + s.name + " over " + up.apiType
	s.relayed, s.up = true, up
	return s
}

// TestGRPCClients makes real RPCs to real backends, which clients find over xDS.
func TestGRPCClients(t *testing.T) { //nolint:tparallel // clients of several kinds at once would take the processors from each other
	t.Parallel() // most of it is waiting
	r := newReport(t)
	for _, kind := range clientKinds() {
		t.Run(kind.name, func(t *testing.T) {
			r.require(t, kind.name, kind.missing)
			for _, names := range []naming{{}, {authority: "services.test"}} {
				playAll(t, r, rpcCases(kind, names, xdsServers()), nil)
			}
		})
	}
}

// rpcCase is a scenario that one kind of client goes through with one server.
type rpcCase struct {
	kind     clientKind
	names    naming
	server   xdsServer
	scenario rpcScenario
}

func rpcCases(kind clientKind, names naming, servers []xdsServer) []rpcCase {
	var cases []rpcCase
	for _, server := range servers {
		for _, s := range rpcScenarios() {
			cases = append(cases, rpcCase{kind, names, server, s})
		}
	}
	return cases
}

func (c rpcCase) name() string {
	return c.server.name + "/" + c.names.String() + "/" + c.scenario.title(c.server)
}

// playAll plays the cases, some of which may be known to fail.
func playAll(t *testing.T, r *report, cases []rpcCase, known faults) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			known.run(t, r, c.name(), func(t testing.TB) {
				t.Helper()
				w := newWorld(t, c.kind, c.server, c.names)
				r.ran(t, w.client, c.name())
				c.scenario.play(t, w)
				w.check(t)
			})
		})
	}
}
