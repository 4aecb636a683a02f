package envoy

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"google.golang.org/protobuf/proto"
)

// onPurposeLimit is how soon Envoys must have a change that an operator makes on purpose.
const onPurposeLimit = time.Second

func onPurposeScenarios() []scenario {
	return []scenario{{
		name: "large changes that an operator makes on purpose", proves: "SUR-3 SUR-7 ADS-4 ADS-5", forms: adsForms,
		behaviour: plane.GoControlPlane(), play: onPurpose,
	}}
}

// TestOnPurpose has a fleet of Envoys follow what operators do on purpose: none of it is held back, and each Envoy has it
// as soon as directly at the control plane.
func TestOnPurpose_SUR3_SUR7(t *testing.T) { playAll(t, onPurposeScenarios()) }

// onPurpose plays one change after the other. At the beginning there are two gateways, services of two namespaces, and a
// certificate.
func onPurpose(w *world) {
	blue, green := w.backend("blue"), w.backend("green")
	const services = 40 // ten of them are a namespace
	begin := []proto.Message{
		w.cluster("one"), endpoints("one", blue), w.cluster("two"), endpoints("two", green),
		w.listener("web", "routes"), route("routes", "one"), w.listener("gone", "gone-routes"), route("gone-routes", "one"),
		w.certificate("certificate", "first.test"), w.encrypted("tls", "one", "certificate"),
	}
	for i := range services {
		begin = append(begin, numbered(i, blue, 1))
	}
	w.plane.Set(begin...)
	fleet := []*envoyproc.Envoy{w.envoy("old-0"), w.envoy("old-1")}
	clusters := services + 2
	for _, e := range fleet {
		w.need(soon, e.Node()+" has everything", func() bool {
			return len(e.ActiveClusters()) == clusters && w.get(e, "web").OK("blue") && w.get(e, "gone").OK("blue") && w.presents(e, "tls", "first.test")()
		})
	}
	// step makes a change, and waits until all Envoys have it.
	step := func(what string, change plane.Change, has func(e *envoyproc.Envoy) bool) {
		w.plane.Apply(change)
		at := time.Now()
		for _, e := range fleet {
			w.within(onPurposeLimit, what+": "+e.Node()+" has it", func() bool { return has(e) })
		}
		w.notef("%s: %v", what, time.Since(at).Round(time.Millisecond))
	}
	set := func(messages ...proto.Message) (c plane.Change) {
		for _, m := range messages {
			c.Set = append(c.Set, plane.Named(m))
		}
		return c
	}
	count := func(n int) func(*envoyproc.Envoy) bool {
		return func(e *envoyproc.Envoy) bool { return len(e.ActiveClusters()) == n }
	}

	newer, older := set(route("routes", "two")), set(route("routes", "one"))
	for i := range services {
		newer.Set, older.Set = append(newer.Set, plane.Named(numbered(i, blue, 2))), append(older.Set, plane.Named(numbered(i, blue, 1)))
	}
	step("everything is changed", newer, func(e *envoyproc.Envoy) bool { return w.get(e, "web").OK("green") })
	step("the control plane is rolled back", older, func(e *envoyproc.Envoy) bool {
		return w.get(e, "web").OK("blue") && e.ActiveClusters()[numbered(0, blue, 1).GetName()].ConnectTimeout == "1s"
	})

	var namespace plane.Change
	for i := range services / 4 {
		namespace.Remove = append(namespace.Remove, plane.KeyOf(numbered(i, blue, 1)))
	}
	clusters -= services / 4
	step("a namespace is deleted", namespace, count(clusters))
	step("a gateway is deleted", plane.Change{Remove: []plane.Key{plane.KeyOf(w.listener("gone", "")), plane.KeyOf(route("gone-routes", ""))}},
		func(e *envoyproc.Envoy) bool { return len(e.Listeners()) == 2 })
	step("a service is scaled to zero", set(endpoints("one")), func(e *envoyproc.Envoy) bool { return w.get(e, "web").Status == 503 })
	step("it is scaled up", set(endpoints("one", green)), func(e *envoyproc.Envoy) bool { return w.get(e, "web").OK("green") })

	var moved plane.Change // from blue clusters to green ones
	backup := set(begin...)
	for i := services / 4; i < services; i++ {
		to := envoyproc.Static(fmt.Sprintf("green-%02d", i), green)
		moved.Remove, moved.Set = append(moved.Remove, plane.KeyOf(numbered(i, blue, 1))), append(moved.Set, plane.Named(to))
		backup.Remove = append(backup.Remove, plane.KeyOf(to))
	}
	step("all services get other names", moved, func(e *envoyproc.Envoy) bool {
		_, has := e.ActiveClusters()["green-39"]
		return has && len(e.ActiveClusters()) == clusters
	})
	step("the certificate authority is changed", set(w.certificate("certificate", "second.test")), func(e *envoyproc.Envoy) bool {
		return w.presents(e, "tls", "second.test")()
	})

	w.plane.Stop()
	w.plane.Apply(backup)
	w.plane.Restart(w.t)
	clusters = services + 2
	for _, e := range fleet {
		w.within(returnLimit, "a backup is restored: "+e.Node()+" has it", func() bool {
			return len(e.ActiveClusters()) == clusters && len(e.Listeners()) == 3 && w.get(e, "web").OK("blue") && w.presents(e, "tls", "first.test")()
		})
	}
	for i, e := range fleet {
		e.Kill()
		fleet[i] = w.envoy(fmt.Sprintf("new-%d", i))
	}
	for _, e := range fleet {
		w.within(soon, "all Envoys are replaced: "+e.Node()+" has everything", func() bool { return count(clusters)(e) && w.get(e, "web").OK("blue") })
	}
	if w.side == relayed {
		if held := w.relays[0].metric(lossesMetric); held > 0 {
			w.faultf("the relay held back %v losses", held)
		}
	}
}
