package downstream

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A client that comes back presents what it holds of a glob with an alternative under
// names that do not say so. It is sent what has changed since, and told what is gone.
func TestHeldOfResolvedGlobs_RES11_LOC5_NAME4(t *testing.T) {
	const e = "#alt=xdstp://b/envoy.config.cluster.v3.Cluster/e/*"
	runAll(t, []scenario{{"RES-11 LOC-5 members of a glob with an alternative", func(h *harness) {
		store := cache.New(cache.Limits{}, nil).Open(cache.Source{Resolved: true})
		h.router.authorities["resolved"] = store
		h.a.set(clusterType, "1", ofA("o/1"))
		c := h.client()
		c.send(&request{
			TypeUrl: clusterType, Node: node("n"), ResourceNamesSubscribe: []string{ofA("d/*") + e, ofA("o/1")},
			InitialResourceVersions: map[string]string{
				ofA("d/1"): "1", ofA("d/2"): "1", ofA("d/3"): "1", ofA("o/1"): "1", ofA("other/1"): "1", "x": "1", "xdstp:": "1",
			},
		})
		h.quiet()
		found := func(id, version string) cache.Found {
			r, err := wire.NewPayload("xdstp://b/envoy.config.cluster.v3.Cluster/e/"+id, version, nil, false)
			if err != nil {
				h.Fatal(err)
			}
			return cache.Found{Key: ofA("d/"+id) + e, Resource: r}
		}
		store.Session().ApplyResolved([]*cache.Resolved{{
			TypeURL: clusterType, Found: []cache.Found{found("1", "1"), found("2", "2")}, Synced: []string{ofA("d/*") + e},
		}}, time.Now())
		c.wants("Cluster +" + ofA("d/2") + "=2 -" + ofA("d/3"))
		if err := store.Check(); err != nil {
			h.Error(err)
		}
	}}})
}

// A first request for "*" in its older form names nothing, and it alone presents versions. What it presents of
// a glob counts when the client subscribes to that: the client is told what is gone. What is there is
// sent, since the client may have dropped it meanwhile (RES-15).
func TestHeldOfLaterGlob_RES11_RES15_SUB3(t *testing.T) {
	runAll(t, []scenario{{"RES-11 RES-15 a glob that is subscribed to after the wildcard", func(h *harness) {
		h.opaque.set(clusterType, "1", "x")
		h.a.set(clusterType, "1", ofA("d/1"), ofA("e/1"))
		c := h.client()
		c.send(&request{TypeUrl: clusterType, Node: node("n"), InitialResourceVersions: map[string]string{
			"x": "1", ofA("d/1"): "1", ofA("d/2"): "1", ofA("e/1"): "1", ofA("e/2"): "1",
		}})
		h.quiet()
		h.opaque.settle()
		c.wants()
		for _, dir := range []string{"d", "e"} {
			c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{ofA(dir + "/*")}})
			h.quiet()
			c.wants("Cluster +" + ofA(dir+"/1") + "=1")
			h.a.settle()
			c.wants("Cluster -" + ofA(dir+"/2"))
		}
		c.send(&request{TypeUrl: clusterType, ResourceNamesUnsubscribe: []string{ofA("d/*")}})
		c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: []string{ofA("d/*")}})
		h.quiet()
		h.a.settle()
		c.wants("Cluster +" + ofA("d/1") + "=1") // it is told once what is gone
	}}})
}

// Names may have scopes of their own, but what a client says it holds of "*" came from the
// scope that "*" has.
func TestHeldOfScopedNames_RES11_AGG1(t *testing.T) {
	runAll(t, []scenario{{"RES-11 AGG-1 what came with the wildcard", func(h *harness) {
		h.router.byName = func(_, name string) (*cache.Store, error) {
			if name == cache.Wildcard {
				return h.opaque.store, nil
			}
			if name != "named" {
				h.Errorf("AGG-1: asked where %q lives, which nobody subscribes to", name)
			}
			return h.other.store, nil
		}
		h.opaque.set(clusterType, "1", "same")
		h.opaque.set(clusterType, "2", "changed")
		h.other.set(clusterType, "1", "named")
		c := h.client()
		c.send(&request{
			TypeUrl: clusterType, Node: node("n"), ResourceNamesSubscribe: []string{cache.Wildcard, "named"},
			InitialResourceVersions: map[string]string{"same": "1", "changed": "1", "gone": "1", "named": "1"},
		})
		h.quiet()
		h.opaque.settle()
		h.other.settle()
		c.wants("Cluster +changed=2", "Cluster -gone")
	}}})
}
