package relay

import (
	"fmt"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// What a client presents in another scope than the one where it accepted the type last is not believed, until it
// accepted the type there.
func TestOtherScope_ACK4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuledRouter(t)
		rt.reload(t, rules.Isolate, rules.Rule{Name: "clusters", Match: "true", Scope: []string{"node.cluster"}})
		store := func(r *routes, typeURL string) *cache.Store {
			t.Helper()
			s, err := r.Scoped(typeURL, cache.Wildcard)
			if err != nil {
				t.Fatal(err)
			}
			return s
		}
		comes := func(what, id, cluster string, distrusted bool) *routes {
			t.Helper()
			r := rt.opens(t, &corev3.Node{Id: id, Cluster: cluster})
			t.Cleanup(r.Close)
			if got := r.Distrusts(store(r, clusterType), clusterType); got != distrusted {
				t.Errorf("%s: distrusted %v, want %v", what, got, distrusted)
			}
			return r
		}
		web := comes("a client that nobody knows", "n", "web", false)
		if !web.Accepted(store(web, clusterType), clusterType) {
			t.Error("what the routes were told is not enough")
		}
		comes("the same scope", "n", "web", false)
		db := comes("another scope", "n", "db", true)
		comes("another scope where the client accepted nothing", "n", "db", true)
		if db.Distrusts(store(db, listenerType), listenerType) {
			t.Error("a type that the client never accepted is distrusted")
		}
		comes("another client", "m", "db", false)
		if db.Accepted(store(web, clusterType), clusterType) {
			t.Error("content of another store is enough for the routes")
		}
		db.Accepted(store(db, clusterType), clusterType)
		comes("the scope where it accepted", "n", "db", false)
		comes("the scope where it was before", "n", "web", true)
	})
}

// The memory of clients is bounded, and an upstream with other settings is the same one.
func TestLastScopesAreBounded_ACK4(t *testing.T) {
	o := newLastScopes()
	from := func(i int) visitor { return visitor{quota.Client{}, fmt.Sprint(i), clusterType} }
	here, there := sessionKey{plane: "p", scope: "here"}, sessionKey{plane: "p", scope: "there"}
	const clients = 4 * 4096 * scopesInSet
	for i := range clients {
		o.note(from(i), here)
	}
	known := 0
	for i := range clients {
		if o.elsewhere(from(i), here) {
			t.Fatal("a client was elsewhere that was nowhere else")
		}
		if o.elsewhere(from(i), there) {
			known++
		}
	}
	if known < 4096*scopesInSet*9/10 || known > 4096*scopesInSet {
		t.Errorf("%d clients are remembered", known)
	}
	here.of = new(plane)
	if o.elsewhere(from(clients-1), here) {
		t.Error("an upstream with other settings is another scope")
	}
}
