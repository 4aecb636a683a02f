package envoy

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/traffic"
)

// restartFetch is how long Envoys wait for a secret that only the control plane has.
const restartFetch = 2 * time.Second

func restartScenarios() []scenario {
	return []scenario{{
		name: "the relay restarts from its disk while the control plane is away", proves: "SUR-1 OPS-6", forms: adsForms, only: relayed,
		behaviour: plane.GoControlPlane(), fetch: restartFetch, disk: true, play: restart,
	}, {
		name: "the relay is killed while the control plane is away", proves: "SUR-1 OPS-6", forms: []form{deltaADS, stateADS}, only: relayed,
		behaviour: plane.GoControlPlane(), fetch: restartFetch, disk: true, killed: true, play: restart,
	}}
}

// TestRestart has a relay begin with its snapshots: Envoys that hold something are sent nothing,
// and an Envoy that joins gets all but secrets.
func TestRestart_SUR1_OPS6(t *testing.T) { playAll(t, restartScenarios()) }

// restartKept is the number of resources of the scenario but for the secret.
const restartKept = 8

// kept is the number of resources in the snapshots of a folder.
func kept(dir string) (n int) {
	_ = snapshot.Inspect(files.OS{}, dir, func(c *snapshot.Contents) { // there may be none yet
		if c.Image != nil {
			for _, table := range c.Image.Tables {
				n += len(table.Resources)
			}
		}
	})
	return n
}

func restart(w *world) {
	a, b := w.backend("a"), w.backend("b")
	w.plane.Set(
		w.cluster("one"), endpoints("one", a), w.cluster("two"), endpoints("two", b), envoyproc.Static("removed", a),
		w.listener("web", "routes"), route("routes", "one"),
		w.encrypted("tls", "one", "certificate"), w.certificate("certificate", "first.test"),
	)
	warm := []*envoyproc.Envoy{w.envoy("first"), w.envoy("second")}
	var loads []*traffic.Load
	begin := func(e *envoyproc.Envoy) {
		loads = append(loads, traffic.StartLoad(w.t, e.Addr("web"), "", 20*time.Millisecond))
	}
	for _, e := range warm {
		w.need(soon, "backend a answers "+e.Node(), w.answers(e, "web", "a"))
		w.need(soon, e.Node()+" has the certificate", w.presents(e, "tls", "first.test"))
		if secretsOf(e) == 0 {
			w.faultf("%s counts no secret, although it has one", e.Node())
		}
		begin(e)
	}

	if r := w.relays[0]; r.killed {
		w.need(soon, "all but the secret is on the disk", func() bool { return kept(r.config.Cache.Dir) == restartKept })
	}

	w.plane.Stop()
	was, connections := make(map[string]map[string]int64), make(map[string]int64)
	for _, e := range warm {
		was[e.Node()], connections[e.Node()] = w.received(e), e.Stat(connectionsStat)
	}
	w.relays[0].restart()
	for _, e := range warm {
		w.need(soon, e.Node()+" is connected again", func() bool {
			return e.Stat(connectionsStat) > connections[e.Node()] && connected(e)
		})
	}
	fresh := w.envoy("fresh")
	took := w.need(restartFetch+soon, "backend a answers the Envoy that joins", w.answers(fresh, "web", "a"))
	w.notef("an Envoy that joins serves after %v, %v of it for a secret", took.Round(100*time.Millisecond), restartFetch)
	begin(fresh)
	for _, cluster := range []string{"one", "two", "removed"} {
		w.within(prompt, "the Envoy that joins has cluster "+cluster, active(fresh, cluster))
	}
	if n := secretsOf(fresh); n != 0 {
		w.faultf("the Envoy that joins got %d secrets from a disk", n)
	}
	w.stays(settled, "all serve without the control plane", func() bool {
		return w.get(fresh, "web").OK("a") && w.presents(warm[0], "tls", "first.test")() && w.presents(warm[1], "tls", "first.test")()
	})
	for _, e := range warm {
		for name, now := range w.received(e) {
			if was := was[e.Node()][name]; was != now {
				w.faultf("%s was sent something: it counts %s %d, which was %d", e.Node(), name, now, was)
			}
		}
	}

	w.plane.Set(route("routes", "two"), w.certificate("certificate", "second.test"))
	w.plane.Remove(envoyproc.Static("removed", a))
	w.plane.Restart(w.t)
	all := append(warm, fresh)
	for _, e := range all {
		w.within(soon, e.Node()+" has what changed meanwhile", w.answers(e, "web", "b"))
		w.within(soon, e.Node()+" has the secret that changed meanwhile", w.presents(e, "tls", "second.test"))
		w.within(soon, e.Node()+" has lost what was removed meanwhile", func() bool { return !active(e, "removed")() })
	}
	w.unharmed(loads)
	w.unscathed(all...)
}

// received is what an Envoy counts of what it was sent: changes, and responses. An Envoy of the
// state of the world asks for endpoints and routes on a new stream, and must be answered (WARM-2):
// of these only changes are among the counters.
func (w *world) received(e *envoyproc.Envoy) map[string]int64 {
	counted := e.Stats(`^(cluster_manager\.(cluster_(added|modified|removed|updated)|cds\.update_(success|rejected))` +
		`|listener_manager\.(listener_(added|modified|removed|in_place_updated)|lds\.update_(success|rejected))` +
		`|cluster\.(one|two)\.(membership_change|update_(success|empty|rejected))` +
		`|http\.web\.rds\.routes\.(config_reload|update_(success|empty|rejected)))$`)
	if len(counted) == 0 {
		w.faultf("%s has no counters", e.Node())
	}
	if !w.variant.Delta {
		maps.DeleteFunc(counted, func(name string, _ int64) bool {
			return strings.HasSuffix(name, ".update_success") && !strings.Contains(name, "_manager.")
		})
	}
	return counted
}

// secretsOf is how many times an Envoy was sent a secret.
func secretsOf(e *envoyproc.Envoy) (n int64) {
	for _, v := range e.Stats(`sds\..*\.update_success$`) {
		n += v
	}
	return n
}

// unharmed ends loads, and notes a fault if a request failed.
func (w *world) unharmed(loads []*traffic.Load) {
	sent := 0
	for _, load := range loads {
		load.Stop()
		sent += load.Sent()
		if failed := load.Failures(); len(failed) > 0 {
			w.faultf("%d of %d requests failed: %s", len(failed), load.Sent(), traffic.Summary(failed))
		}
	}
	w.notef("%d requests", sent)
}
