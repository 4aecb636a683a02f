package envoy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func rollbackScenarios() []scenario {
	return []scenario{{
		name: "a valid route that leads nowhere is rolled back", proves: "GATE-4", only: relayed,
		forms:     []form{deltaADS, stateADS, deltaPerType, statePerType},
		behaviour: plane.GoControlPlane(), play: rolledBack,
	}}
}

// TestRollback has an operator take back what a control plane pushed to a fleet.
func TestRollback_GATE4(t *testing.T) { playAll(t, rollbackScenarios()) }

// rolledBackFleet is the size of the fleet.
func rolledBackFleet() int {
	if soaking() {
		return 20
	}
	return 3
}

const (
	// stepApart is the time after which a change is a step of its own, to which one can go back.
	stepApart = 3 * time.Second
	// rolledBackWithin is how soon all Envoys must have a rollback, on a machine that is the test's alone.
	rolledBackWithin = time.Second

	pastMetric   = "xdsrelay_cache_past_bytes"
	frozenMetric = "xdsrelay_table_frozen_names"
)

// rolledBack has the Envoys serve again what they served before, and be sent only that. What the
// control plane sends meanwhile waits for the operator, who releases it.
func rolledBack(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
		w.cluster("nowhere"), endpoints("nowhere", fmt.Sprint("127.0.0.1:", ports.Free(w.t))),
		w.listener("web", "routes"), route("routes", "one"),
	)
	var all []*envoyproc.Envoy
	for i := range rolledBackFleet() {
		all = append(all, w.envoy(fmt.Sprintf("fleet-%d", i)))
	}
	w.haveAll(soon, all, "a")
	w.stays(stepApart, "the first Envoy is served", func() bool { return w.get(all[0], "web").OK("a") })

	w.plane.Set(route("routes", "nowhere"))
	for _, e := range all {
		w.need(soon, e.Node()+" has the wrong route", func() bool { return w.get(e, "web").Status == 503 })
	}
	if w.relays[0].metric(pastMetric) == 0 {
		w.faultf("the relay remembers nothing")
	}
	was := make(map[string]int64)
	for _, e := range all {
		was[e.Node()] = changesOf(e)
	}
	took := w.rollBack(all, "a")
	w.notef("rolled back in %d Envoys within %v", len(all), took.Round(time.Millisecond))
	if soaking() && took > rolledBackWithin {
		w.faultf("the rollback reached all Envoys after %v only", took)
	}
	loads := w.loadsOf(all)
	if n := w.relays[0].metric(frozenMetric); n != 1 {
		w.faultf("%v names are held, want the route", n)
	}
	fresh := w.envoy("fresh")
	loads = append(loads, w.loadsOf([]*envoyproc.Envoy{fresh})...)

	w.plane.Set(route("routes", "two"))
	w.stays(settled, "the Envoys have what was before", func() bool { return w.get(all[0], "web").OK("a") && w.get(fresh, "web").OK("a") })
	for _, e := range all {
		if now := changesOf(e); now != was[e.Node()]+1 {
			w.faultf("%s took %d changes over while one was rolled back", e.Node(), now-was[e.Node()])
		}
	}
	w.give("/release", &admin.Command{})
	w.haveAll(soon, append(all, fresh), "b")
	w.unharmed(loads)
	w.unscathed(append(all, fresh)...)
}

// changesOf counts what an Envoy took over: clusters, listeners and routes.
func changesOf(e *envoyproc.Envoy) (n int64) {
	for _, v := range e.Stats(`^(cluster_manager\.cluster_(added|modified|removed)|listener_manager\.listener_(added|modified|removed)|http\.web\.rds\.routes\.config_reload)$`) {
		n += v
	}
	return n
}

// ask has a page of the relay's admin port, or what it says to a command, as an operator has it.
func ask[T any](w *world, path string, command *admin.Command) (said T) {
	w.t.Helper()
	method, body := http.MethodGet, []byte(nil)
	if command != nil {
		var err error
		if body, err = json.Marshal(command); err != nil {
			w.t.Fatal(err)
		}
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(context.Background(), method, "http://"+w.relays[0].admin+path, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.stopf("%s: %v", path, err)
	}
	defer func() { _ = response.Body.Close() }()
	if err := json.NewDecoder(response.Body).Decode(&said); err != nil || response.StatusCode != http.StatusOK {
		w.stopf("%s: %s, %v", path, response.Status, err)
	}
	return said
}

// give gives the relay a command, as "xdsrelay hold", "release" and "rollback" do.
func (w *world) give(path string, c *admin.Command) {
	w.t.Helper()
	done := ask[admin.Done](w, path, c)
	if _, _, failed := done.Totals(); failed > 0 {
		w.stopf("%s: %+v", path, done)
	}
}

// rollBack takes the last step back, and returns how long it took until a backend answered requests
// to all Envoys.
func (w *world) rollBack(all []*envoyproc.Envoy, backend string) time.Duration {
	w.t.Helper()
	known := ask[[]admin.Generations](w, "/generations", nil)
	if len(known) != 1 || len(known[0].Generations) < 2 {
		w.stopf("the relay remembers %+v", known)
	}
	begin := time.Now()
	w.give("/rollback", &admin.Command{Generation: &known[0].Generations[1].Number})
	took := make([]time.Duration, len(all))
	var waiting sync.WaitGroup
	for i, e := range all {
		addr := e.Addr("web")
		waiting.Go(func() {
			client := traffic.NewClient()
			w.within(prompt, e.Node()+" has what was before", func() bool { return client.Get(context.Background(), addr, "", "/").OK(backend) })
			took[i] = time.Since(begin)
		})
	}
	waiting.Wait()
	return slices.Max(took)
}
