package envoy

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/relays"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
)

// fleet is the number of Envoys of a scenario with mute control planes.
func fleet() int {
	if soaking() {
		return 12
	}
	return 6
}

func grayScenarios() []scenario {
	adsOnly := []form{deltaADS, stateADS}
	of := func(name, proves string, forms []form, behaviour plane.Behaviour, play func(*world)) scenario {
		return scenario{
			name: name, proves: proves, forms: forms, only: relayed,
			behaviour: behaviour, second: true, relay: soonSilent, play: play,
		}
	}
	replica := plane.GoControlPlane()
	replica.DigestVersions = true
	return []scenario{
		of("a better control plane comes back mute", "SUR-2 LOC-6", adsOnly, replica,
			func(w *world) { muteReturn(w, false) }),
		// Only incremental streams present the version of each resource.
		of("a better control plane comes back mute, with versions of its own", "SUR-2 LOC-6 ACK-4", []form{deltaADS}, plane.GoControlPlane(),
			func(w *world) { muteReturn(w, true) }),
		of("a control plane falls mute while it serves", "SUR-2", adsOnly, replica, muteServing),
	}
}

// TestGray has one of two control planes take streams and answer nothing: the other one serves.
func TestGray_SUR2_LOC6_ACK4(t *testing.T) { playAll(t, grayScenarios()) }

// soonSilent has the relay wait for answers no longer than a test can wait, and long enough for a
// busy machine.
func soonSilent(c *config.Config) {
	for i := range c.Upstreams {
		c.Upstreams[i].ResponseTimeout = config.Duration(3 * time.Second)
		c.Upstreams[i].Failback = config.Duration(time.Second)
	}
}

// noticed is how soon a fleet has a change of the second control plane after the first one fell
// mute while it owed no answer: after a quiet minute the relay asks it for something.
const noticed = 70 * time.Second

// underLoad starts the fleet with traffic, in front of two control planes with the same contents.
func (w *world) underLoad() (all []*envoyproc.Envoy, loads []*traffic.Load) {
	a, b := w.backend("a"), w.backend("b")
	for _, p := range []*plane.Plane{w.plane, w.second} {
		p.Set(
			w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b),
			w.listener("web", "routes"), route("routes", "one"),
		)
	}
	for i := range fleet() {
		all = append(all, w.envoy(fmt.Sprintf("fleet-%d", i)))
	}
	return all, w.loadsOf(all)
}

// loadsOf begins traffic to listener web of Envoys, as soon as backend a answers all of them.
func (w *world) loadsOf(all []*envoyproc.Envoy) (loads []*traffic.Load) {
	w.haveAll(soon, all, "a")
	for _, e := range all {
		loads = append(loads, traffic.StartLoad(w.t, e.Addr("web"), "", 100*time.Millisecond))
	}
	return loads
}

// haveAll waits until a backend answers all Envoys. A fault has the number of those that it does
// not answer.
func (w *world) haveAll(limit time.Duration, all []*envoyproc.Envoy, backend string) time.Duration {
	var waiting []string
	begin := time.Now()
	for _, e := range all {
		left := w.allowed(limit) - time.Since(begin)
		if _, held := wait.Until(left, w.answers(e, "web", backend)); !held {
			waiting = append(waiting, e.Node())
		}
	}
	if len(waiting) > 0 {
		w.stopf("backend %s answers %d of %d Envoys, not %q", backend, len(all)-len(waiting), len(all), waiting)
	}
	return time.Since(begin)
}

// metrics are those of the relay.
func (r *relayProcess) metrics() string {
	r.t.Helper()
	_, page := relays.Page(r.t, "http://"+r.admin+"/metrics")
	return page
}

// metric is the sum of a metric of the relay, over all its labels.
func (r *relayProcess) metric(name string) (sum float64) {
	r.t.Helper()
	for line := range strings.Lines(r.metrics()) {
		series, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if family, _, _ := strings.Cut(series, "{"); family != name {
			continue
		}
		v, err := strconv.ParseFloat(value, 64)
		if err != nil {
			r.t.Fatal(err)
		}
		sum += v
	}
	return sum
}

const (
	silencesMetric = "xdsrelay_upstream_silences_total"
	movesMetric    = "xdsrelay_upstream_endpoint_changes_total"
)

// muteReturn loses the better of two control planes, which comes back mute, and later well. If it
// reuses versions it has another route then than the other control plane, under the same version.
func muteReturn(w *world, reuses bool) {
	all, loads := w.underLoad()
	w.plane.Stop()
	w.second.Set(route("routes", "two"))
	w.haveAll(soon, all, "b")

	w.plane.Behave(func(b *plane.Behaviour) { b.Mute = true })
	moves := w.relays[0].metric(movesMetric)
	w.plane.Restart(w.t)
	w.need(soon, "the relay tells that the control plane is mute", func() bool { return w.relays[0].metric(silencesMetric) > 0 })
	w.second.Set(route("routes", "one"))
	w.haveAll(soon, all, "a")
	if n := w.relays[0].metric(movesMetric) - moves; n > 0 {
		w.faultf("the relay moved %v times while the better control plane was mute", n)
	}

	changed := route("routes", "two")
	if reuses {
		w.plane.Set(envoyproc.Static("three", w.backend("c"))) // counts as the other one's first change
		w.plane.Set(changed)
	}
	w.plane.Behave(func(b *plane.Behaviour) { b.Mute = false })
	w.need(noticed, "the relay returns to the better control plane", func() bool { return w.relays[0].metric(movesMetric) > moves })
	w.plane.Set(changed)
	w.haveAll(soon, all, "b")
	w.unharmed(loads)
	w.unscathed(all...)
}

// muteServing has the control plane that serves answer nothing any more.
func muteServing(w *world) {
	all, loads := w.underLoad()
	w.plane.Behave(func(b *plane.Behaviour) { b.Mute = true })
	for _, p := range []*plane.Plane{w.plane, w.second} {
		p.Set(route("routes", "two"))
	}
	took := w.haveAll(noticed, all, "b")
	w.notef("the second control plane serves after %v", took.Round(100*time.Millisecond))
	if w.relays[0].metric(silencesMetric) == 0 {
		w.faultf("the relay does not tell that the control plane is mute")
	}
	joins := w.envoy("joins")
	w.haveAll(soon, []*envoyproc.Envoy{joins}, "b")
	w.second.Set(route("routes", "one"))
	all = append(all, joins)
	w.haveAll(soon, all, "a")
	w.unharmed(loads)
	w.unscathed(all...)
}
