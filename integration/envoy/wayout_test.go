package envoy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	bootstrapv3 "github.com/envoyproxy/go-control-plane/envoy/config/bootstrap/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/config/bootstrap"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

const (
	// wayOut is the time in which Envoys are at the control plane when all relays are gone.
	wayOut = 15 * time.Second
	// oneLeft is how long one relay serves all Envoys.
	oneLeft = 6 * time.Second
	// wayBack is the time after which a stream begins anew, at a relay if there is one.
	wayBack = 5 * time.Second
)

// made gives the bootstrap that "xdsrelay bootstrap envoy" makes, with an admin port of its own.
func made(t *testing.T, c *config.Config, o bootstrap.Options) *bootstrapv3.Bootstrap {
	t.Helper()
	o.Listener, o.Admin, o.Return = config.DefaultListenerName, "127.0.0.1:0", wayBack
	b, err := bootstrap.New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := b.Envoy()
	if err != nil {
		t.Fatal(err)
	}
	encoded, _, wrong := files.YAMLToJSON([]byte(text), 1<<20)
	if wrong != nil {
		t.Fatal(wrong)
	}
	result := new(bootstrapv3.Bootstrap)
	if err := protojson.Unmarshal(encoded, result); err != nil {
		t.Fatal(err)
	}
	return result
}

// TestWayOut_ABS2 kills all relays of Envoys with traffic, while endpoints change. The Envoys go to the control
// plane, and return when the relays do, which have mutual TLS and it has not. On neither way a request fails, or is a resource sent that they hold.
func TestWayOut_ABS2(t *testing.T) {
	t.Parallel() // most of it is waiting
	envoys := 4
	if soaking() {
		envoys = 20
	}
	begin, w := time.Now(), newExampleWorld(t)
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(w.cluster("one"), endpoints("one", a), w.listener("web", "routes"), route("routes", "one"))
	certificates, relays := newFleetTLS(t), make([]*relayProcess, 2)
	for i := range relays {
		relays[i] = startRelay(t, config.AggregatedDeltaGRPC, w.plane.Addr(), true, certificates.serve)
	}
	w.run(func() {
		var fleet []*envoyproc.Envoy
		start := func(i int) *envoyproc.Envoy {
			return envoyproc.Start(t, w.binary, made(t, relays[0].config, bootstrap.Options{
				ID: fmt.Sprintf("edge-%d", i), Cluster: "edge", Relays: []string{relays[0].addr, relays[1].addr}, ServerName: relayHost,
				CAFile: certificates.files.Path("fleet.crt"), CertFile: certificates.files.Path("envoy.crt"), KeyFile: certificates.files.Path("envoy.key"),
			}))
		}
		for i := range envoys {
			fleet = append(fleet, start(i))
		}
		var loads []*traffic.Load
		for _, e := range fleet {
			w.need(soon, e.Node()+" is served", w.answers(e, "web", "a"))
			loads = append(loads, traffic.StartLoad(t, e.Addr("web"), "", 20*time.Millisecond))
		}
		if n := w.direct(); n > 0 {
			w.faultf("%d Envoys are at the control plane while the relays are there", n)
		}
		stop := w.changing(a, b)
		defer stop()

		relays[0].stop()
		w.stays(oneLeft, "no Envoy is at the control plane while one relay is left", func() bool { return w.direct() == 0 })
		relays[1].stop()
		before := len(w.plane.Responses(""))
		took, _ := w.within(wayOut, "all Envoys are at the control plane", func() bool { return w.direct() == envoys })
		w.notef("%d Envoys at the control plane after %v", envoys, took.Round(10*time.Millisecond))
		w.served(fleet, a, b)
		late := w.plane.Opened()
		fleet = append(fleet, start(envoys))
		w.within(wayOut, "an Envoy that starts without any relay is served", w.answers(fleet[envoys], "web", "a"))
		for _, r := range w.plane.Responses("")[before:] {
			if r.Stream <= late && !strings.HasSuffix(r.TypeURL, ".ClusterLoadAssignment") && len(r.Names) > 0 {
				w.faultf("the control plane sent %v again", r.Names)
			}
		}

		for _, r := range relays {
			r.again()
		}
		took, _ = w.within(wayOut, "all Envoys are at the relays again", func() bool { return w.direct() == 0 })
		w.notef("at the relays again after %v", took.Round(10*time.Millisecond))
		w.served(fleet, a, b)
		for _, r := range relays {
			for line := range strings.Lines(r.metrics()) {
				if strings.HasPrefix(line, "xdsrelay_downstream_resources_total") && !strings.Contains(line, `type="eds"`) && !strings.HasSuffix(line, " 0\n") {
					w.faultf("a relay sent resources again: %s", strings.TrimSpace(line))
				}
			}
		}
		stop()
		for i, l := range loads {
			l.Stop()
			if failed := l.Failures(); len(failed) > 0 {
				w.faultf("%s: %d of %d requests failed: %s", fleet[i].Node(), len(failed), l.Sent(), traffic.Summary(failed))
			}
		}
		w.unscathed(fleet...)
	})
	faults, notes := w.result()
	t.Log(notes)
	if faults != "" {
		t.Error(faults)
	}
	report(t, &scenario{name: "all relays are killed, and come back"}, w.form, relayed, outcome{faults: faults, notes: notes, took: time.Since(begin)})
}

// direct is how many Envoys have a stream at the control plane.
func (w *world) direct() int {
	nodes := make(map[string]bool)
	for _, s := range w.plane.Open() {
		if id := s.Node.GetId(); strings.HasPrefix(id, "edge-") && len(s.Names) > 0 {
			nodes[id] = true
		}
	}
	return len(nodes)
}

// changing has the endpoints of a cluster change all the time, until stop.
func (w *world) changing(backends ...string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-tick.C:
				w.plane.Set(endpoints("one", backends[i%len(backends)]))
			case <-ctx.Done():
				return
			}
		}
	})
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

// served has each Envoy follow the changes: one backend answers, and then the other one.
func (w *world) served(fleet []*envoyproc.Envoy, backends ...string) {
	names := []string{"a", "b"}[:len(backends)]
	for _, e := range fleet {
		for _, name := range slices.Concat(names, names[:1]) {
			w.within(soon, e.Node()+" follows, to backend "+name, w.answers(e, "web", name))
		}
	}
}
