package integration

import (
	"flag"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

var guardEmpty = flag.Duration("guard.empty", 0, "how long the control plane of TestGRPCClientsGuard is empty, at least")

// TestGRPCClientsGuard_SUR3 restarts go-control-plane empty under gRPC clients, and lets it come back
// complete: no RPC fails, of a client that comes meanwhile neither. Few resources are enough for the
// guard here: a client has one of each type.
func TestGRPCClientsGuard_SUR3(t *testing.T) {
	t.Parallel() // most of it is waiting
	r := newReport(t)
	server := xdsServer{
		name: "SnapshotCache", plane: func(testing.TB) managementServer { return gocontrolplane.NewSnapshot() },
		settings: func(c *config.Config) { c.Upstreams[0].Guard.AtLeast = 1 },
	}.behind(upDeltaADS)
	for _, kind := range clientKinds() {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			r.require(t, kind.name, kind.missing)
			w := newWorld(t, kind, server, naming{})
			r.ran(t, w.client, "SUR-3 the control plane restarts empty")
			comesBackEmpty(t, w)
			w.check(t)
		})
	}
}

func comesBackEmpty(t testing.TB, w *world) {
	t.Helper()
	n := w.names
	all := []proto.Message{
		n.endpoints("endpoints", w.backends["a"]), n.cluster("cluster", "endpoints"), n.route("route", "cluster"), n.listener("service", "route"),
	}
	w.set(t, all...)
	before := w.join(t, "before")
	before.await(t, "a")

	again := func(change func(testing.TB, ...proto.Message)) {
		t.Helper()
		w.plane.Stop()
		change(t, all...)
		if err := w.plane.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(want int) func() bool {
		return func() bool {
			n := 0
			for _, typeName := range []string{"cds", "eds", "lds", "rds"} {
				n += w.relay.metric(t, "xdsrelay_table_held", `type="`+typeName+`"`)
			}
			return n == want
		}
	}
	again(w.drop)
	waitFor(t, "the relay to hold everything back", holds(len(all)))
	empty := time.Now()
	before.stays(t, "a")
	during := w.join(t, "during")
	during.await(t, "a")
	during.stays(t, "a")
	for time.Since(empty) < *guardEmpty && !t.Failed() {
		before.stays(t, "a")
		during.stays(t, "a")
	}

	all[0] = n.endpoints("endpoints", w.backends["b"])
	again(w.set)
	for _, c := range []*caller{before, during} {
		c.await(t, "b")
		c.stays(t, "b")
	}
	waitFor(t, "the relay to hold nothing back", holds(0))
}
