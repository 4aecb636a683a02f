package relay

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// BenchmarkTellOutages is what it costs to look, once a second, which upstreams cannot be
// reached, with many scopes at rest.
func BenchmarkTellOutages(b *testing.B) {
	cfg := config.Default()
	u := config.DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "plane", true, [][]string{{"127.0.0.1:1"}}
	cfg.Upstreams = []config.Upstream{u}
	r, err := New(cfg, Options{})
	if err != nil {
		b.Fatal(err)
	}
	p := r.hub.present()["plane"]
	p.outages = new(upstream.Outages)
	for i := range 50_000 {
		s := &session{key: sessionKey{plane: "plane", of: p, scope: fmt.Sprintf("node-%d", i)}, store: r.cache.Open(cache.Source{})}
		f, err := r.hub.open(s, p.upstream, r.hub.node, 0)
		if err != nil {
			b.Fatal(err)
		}
		s.client = newSupply(f, r.log)
		r.hub.sessions[s.key] = s
	}
	b.ReportAllocs()
	for b.Loop() {
		r.outages.tell(b.Context(), time.Now())
	}
}
