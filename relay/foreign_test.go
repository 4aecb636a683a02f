package relay

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// For which authorities an upstream speaks: its own, the rest if it is the default, and those
// that nobody has. One that is alone speaks for all.
func TestSpeaks_LOC3(t *testing.T) {
	upstreams := func(texts ...string) *config.Config {
		cfg := config.Default()
		for _, text := range texts {
			name, authorities, _ := strings.Cut(text, ":")
			u := upstreamAt(strings.TrimPrefix(name, "*"), "127.0.0.1:1")
			u.Default = strings.HasPrefix(name, "*")
			if authorities != "" {
				u.Authorities = strings.Split(authorities, " ")
			}
			cfg.Upstreams = append(cfg.Upstreams, u)
		}
		return cfg
	}
	for _, tt := range []struct {
		name      string
		upstreams []string
		of        string
		speaks    []string // nil: for all
		not       []string
	}{
		{"LOC-3 the only one, as default", []string{"*one"}, "one", nil, nil},
		{"LOC-3 the only one that has authorities", []string{"one:a b", "two"}, "one", nil, nil},
		{"LOC-3 the default has what nobody claims", []string{"*one", "two:a"}, "one", []string{"", "b"}, []string{"a"}},
		{"LOC-3 who claims", []string{"*one", "two:a *.b"}, "two", []string{"a", "x.b"}, []string{"", "c"}},
		{"LOC-3 who is only named by rules, beside a default", []string{"*one", "two"}, "two", []string{}, []string{"", "a"}},
		{"LOC-3 nobody has the others", []string{"one:a", "two:b"}, "two", []string{"b", "c", ""}, []string{"a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := newPlan(upstreams(tt.upstreams...))
			if err != nil {
				t.Fatal(err)
			}
			speaks := p.speaks(tt.of)
			if (speaks == nil) != (tt.speaks == nil) {
				t.Fatalf("for all: %t", speaks == nil)
			}
			for _, a := range tt.speaks {
				if !speaks(a) {
					t.Errorf("not for %q", a)
				}
			}
			for _, a := range tt.not {
				if speaks(a) {
					t.Errorf("for %q", a)
				}
			}
		})
	}
}

// What a control plane brings with "*" under names of another one's authority is left out,
// is counted and logged, and comes when a reload gives it the authority.
func TestForeign_LOC3_NAME2(t *testing.T) {
	const ofA, ofB = "xdstp://a/envoy.config.cluster.v3.Cluster/x", "xdstp://b/envoy.config.cluster.v3.Cluster/x"
	first := newPlaneServer(t, contents{"c": "1", ofA: "1", ofB: "1"})
	for _, x := range first.Contents(clusterType) {
		x.Strays = true
		first.Apply(testplane.Change{Set: []testplane.Resource{x}})
	}
	second := newPlaneServer(t, contents{ofB: "2"})
	r := run(t, configOf(upstreamAt("first", first.address), claiming(upstreamAt("second", second.address), "b")))
	c := r.join("n")
	c.holds(contents{"c": "1", ofA: "1"})
	for !strings.Contains(r.page("/metrics"), `xdsrelay_cache_foreign_resources_total{type="cds"} 1`) { // counted when clients were woken
	}
	for !strings.Contains(r.log.String(), "level=WARN") {
		r.page("/livez")
	}
	if log := r.log.String(); !strings.Contains(log, "upstream=first") || !strings.Contains(log, ofB) {
		t.Errorf("the log does not name the upstream and the resource:\n%s", log)
	}
	r.reload(func(c *config.Config) { c.Upstreams[1].Authorities = []string{"another"} })
	c.holds(contents{"c": "1", ofA: "1", ofB: "1"})
	r.reload(func(c *config.Config) { c.Upstreams[1].Authorities = []string{"a"} })
	c.holds(contents{"c": "1", ofB: "1"})
	if got := c.lost(); got != ofA {
		t.Errorf("the client lost %q, want what is another upstream's now", got)
	}
	r.check()
}

// There is one warning for each upstream and authority, and none without end.
func TestForeigners(t *testing.T) {
	var out strings.Builder
	f := newForeigners(nopObserver{}, slog.New(slog.NewTextHandler(io.Writer(&out), nil)))
	for i := range 2 * maxForeign {
		for range 2 {
			f.Foreign("plane", clusterType, fmt.Sprintf("xdstp://a%d/envoy.config.cluster.v3.Cluster/%d", i, i), 1)
		}
	}
	f.Foreign("plane", clusterType, "xdstp://%zz/", 1)
	if got := strings.Count(out.String(), "level=WARN"); got != maxForeign {
		t.Errorf("%d warnings, want %d", got, maxForeign)
	}
}

// nopObserver is told in vain.
type nopObserver struct{ cache.Observer }

func (nopObserver) Foreign(_, _, _ string, _ int) {}
