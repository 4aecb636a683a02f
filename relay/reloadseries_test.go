package relay

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// seriesOf is how many series there are of an upstream.
func (r *running) seriesOf(name string) int {
	r.Helper()
	return strings.Count(r.page("/metrics"), fmt.Sprintf("upstream=%q", name))
}

// An upstream that is gone has series as long as somebody uses it. Who has its name
// meanwhile, or was to have it, shares them.
func TestReload_seriesOfRetired(t *testing.T) {
	// retire begins a relay with an upstream that is not configured any more but in use.
	retire := func(t *testing.T) (r *running, b config.Upstream, all int, end func()) {
		t.Helper()
		a := newPlaneServer(t, contents{})
		b = claiming(upstreamAt("b", a.address), "b")
		r = run(t, configOf(upstreamAt("a", a.address), b))
		h := r.relay.hub
		s, err := h.acquire(claim{}, r.relay.router.now.Load().key("b"), asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		all = r.seriesOf("b")
		r.reload(func(c *config.Config) { c.Upstreams = c.Upstreams[:1] })
		r.shows("/upstreams", `"retired": true`)
		if n := r.seriesOf("b"); n != all {
			t.Errorf("%d series of an upstream whose session goes on, want %d", n, all)
		}
		return r, b, all, func() {
			t.Helper()
			h.release(s)
			<-s.done
			if strings.Contains(r.page("/upstreams"), "retired") {
				t.Error("what has ended is still there")
			}
		}
	}
	for _, tt := range []struct {
		name  string
		spoil func(*config.Upstream) // the upstream that is to be the second one of the name, or nil
	}{
		{"its TLS files are missing", func(u *config.Upstream) { u.TLS = &config.UpstreamTLS{CAFile: "missing.pem"} }},
		{"another's TLS files are missing", nil},
	} {
		t.Run("a reload fails that has its name: "+tt.name, func(t *testing.T) {
			r, b, all, end := retire(t)
			if err := r.try(func(c *config.Config) {
				bad := b
				bad.Name, bad.Authorities, bad.TLS = "c", []string{"c"}, &config.UpstreamTLS{CAFile: "missing.pem"}
				if tt.spoil != nil {
					tt.spoil(&b)
				}
				c.Upstreams = append(c.Upstreams, b, bad)
			}); err == nil {
				t.Fatal("no error")
			}
			if n, of := r.seriesOf("b"), r.seriesOf("c"); n != all || of != 0 {
				t.Errorf("%d series of the upstream that is in use, want %d, and %d of one that there is not", n, all, of)
			}
			end()
			if n := r.seriesOf("b"); n != 0 {
				t.Errorf("%d series are left", n)
			}
		})
	}
	t.Run("it ends while a reload brings its name back", func(t *testing.T) {
		r, b, all, end := retire(t)
		cfg := *r.config
		cfg.Upstreams = append(cfg.Upstreams, b)
		r.relay.reloading.Lock()
		o, err := r.relay.overhaul(&cfg)
		if err != nil {
			t.Fatal(err)
		}
		end()
		_, err = r.relay.hub.carryOut(o)
		r.relay.reloading.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		if n := r.seriesOf("b"); n != all {
			t.Errorf("%d series of the upstream that came back, want %d", n, all)
		}
	})
}
