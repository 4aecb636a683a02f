package relay

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
)

// heldObserver counts what it is told of.
type heldObserver struct {
	cache.Observer

	told int
}

func (o *heldObserver) Held(cache.Held) { o.told++ }

// A loss is one warning a minute for each type of an upstream, in however many scopes it is, and its
// end one line. The metric counts all of them.
func TestLossesLog_SUR3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log, seen := new(logtest.Text), new(heldObserver)
		l := &losses{Observer: seen, log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo}))}
		lines := func(part string) int { return strings.Count(log.String(), part) }
		const (
			begins = "level=WARN msg=\"an upstream removes many resources at once"
			ends   = "level=INFO msg=\"the relay holds the removal of resources no longer"
		)
		expect := func(what string, begun, ended int) {
			t.Helper()
			if b, e := lines(begins), lines(ends); b != begun || e != ended {
				t.Fatalf("%s: %d warnings and %d ends are logged, want %d and %d:\n%s", what, b, e, begun, ended, log)
			}
		}
		until := time.Now().Add(5 * time.Minute)
		loss := cache.Held{Upstream: "a", TypeURL: clusterType, Lost: 20, Of: 30, Until: until}
		for range 100 {
			l.Held(loss)
		}
		expect("a hundred scopes", 1, 0)
		if want := fmt.Sprintf("upstream=a type=%s removed=20 of=30 until=%s", clusterType, until.Format("2006-01-02T15:04:05.000Z07:00")); lines(want) != 1 {
			t.Errorf("the warning lacks %q:\n%s", want, log)
		}
		other, elsewhere := loss, loss
		other.TypeURL, elsewhere.Upstream = "another", "b"
		l.Held(other)
		l.Held(elsewhere)
		expect("another type, another upstream", 3, 0)
		pass(warnAgain - time.Second)
		l.Held(loss)
		expect("within the minute", 3, 0)
		ended := loss
		ended.Ended = cache.EndedByTime
		for range 100 {
			l.Held(ended)
		}
		expect("its end", 3, 1)
		if lines("told=20 because=time") != 1 {
			t.Errorf("the end does not say why:\n%s", log)
		}
		ended.Ended = cache.EndedByReturn
		l.Held(ended)
		expect("another end", 3, 2)
		pass(time.Second)
		l.Held(loss)
		l.Held(loss)
		expect("after a minute", 4, 2)
		if seen.told != 206 {
			t.Errorf("the metrics are told of %d losses", seen.told)
		}
		if n := len(l.warned); n > 3 {
			t.Errorf("%d losses are remembered", n)
		}
	})
}

// manyClusters are enough for the guard.
func manyClusters() contents {
	has := make(contents)
	for i := range 30 {
		has[fmt.Sprintf("c%02d", i)] = "1"
	}
	return has
}

// returns is a control plane that comes back with other contents.
func (p *planeServer) returns(has contents) *planeServer {
	p.Helper()
	p.Stop()
	return newPlaneServerAt(p.T, p.address, has)
}

// The log, /readyz and /upstreams say the same time at which clients are told.
func TestHeldUntil_SUR3(t *testing.T) {
	all := manyClusters()
	a := newPlaneServer(t, all)
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(all)
	begin := time.Now()
	a.returns(nil)
	r.comes("/readyz", "held: a removed 30 resources of "+clusterType)
	v, code := r.readiness()
	if code != http.StatusOK || !v.Ready || len(v.Upstreams[0].Held) != 1 {
		t.Fatalf("%d: %+v", code, v)
	}
	h := v.Upstreams[0].Held[0]
	if h.Removed != 30 || h.Scopes != 1 || h.TypeURL != clusterType {
		t.Errorf("it shows %+v", h)
	}
	if hold := r.config.Upstreams[0].Guard.Hold.Std(); h.Until.Before(begin.Add(hold)) || h.Until.After(time.Now().Add(hold)) {
		t.Errorf("held until %v, from some time after %v on", h.Until, begin)
	}
	r.shows("/readyz", "clients keep them until "+h.Until.UTC().Format(time.RFC3339))
	var page []struct {
		Sessions []struct {
			HeldUntil time.Time `json:"held_until"`
			Tables    []struct {
				Held int `json:"held"`
			} `json:"tables"`
		} `json:"sessions"`
	}
	if err := json.Unmarshal([]byte(r.page("/upstreams")), &page); err != nil {
		t.Fatal(err)
	}
	if s := page[0].Sessions[0]; !s.HeldUntil.Equal(h.Until) || s.Tables[0].Held != 30 {
		t.Errorf("/upstreams shows %+v, /readyz %v", s, h.Until)
	}
	if want := "removed=30 of=30 until=" + h.Until.Format("2006-01-02T15:04:05.000Z07:00"); !strings.Contains(r.log.String(), want) {
		t.Errorf("the log lacks %q:\n%s", want, r.log)
	}
	r.check()
}

// A reload changes the guard of the sessions that there are. Their streams stay, and what is held
// already stays so until its time.
func TestReloadGuard_SUR3(t *testing.T) {
	all := manyClusters()
	a := newPlaneServer(t, all)
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Upstreams[0].Guard.Removed = 0
	r := run(t, cfg)
	c := r.join("client")
	c.holds(all)
	a.opens()
	set := func(change func(*config.Guard)) {
		t.Helper()
		r.reload(func(c *config.Config) { change(&c.Upstreams[0].Guard) })
	}
	set(func(g *config.Guard) { g.Removed, g.AtLeast, g.Hold = 10, 3, config.Duration(time.Hour) })

	few := maps.Clone(all)
	for _, name := range []string{"c00", "c01", "c02"} {
		delete(few, name)
	}
	b := a.returns(few)
	r.comes("/readyz", "held: a removed 3 resources of "+clusterType)
	if n := a.more(); n > 0 {
		t.Errorf("the reload began %d streams", n)
	}
	v, _ := r.readiness()
	until := v.Upstreams[0].Held[0].Until

	set(func(g *config.Guard) { g.Hold = config.Duration(time.Second) })
	set(func(g *config.Guard) { g.Removed = 0 })
	if v, _ := r.readiness(); len(v.Upstreams[0].Held) != 1 || !v.Upstreams[0].Held[0].Until.Equal(until) {
		t.Errorf("after the reload it shows %+v, before it held until %v", v.Upstreams[0].Held, until)
	}
	if lost := c.lost(); lost != "" {
		t.Errorf("the client lost %s", lost)
	}
	b = b.returns(all)
	for strings.Contains(r.page("/readyz"), "held") {
		continue
	}
	b.returns(nil) // the guard is off
	c.holds(contents{})
	r.check()
}

// A control plane comes back with the state before its last one: clients get it, and operators learn of it.
func TestWentBack_SUR7(t *testing.T) {
	first, second := manyClusters(), manyClusters()
	for name := range second {
		second[name] = "2"
	}
	a := newPlaneServer(t, first)
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(first)
	a.Apply(clustersOf(t, second))
	c.holds(second)
	a.returns(first)
	c.holds(first)
	r.comes("/metrics", `xdsrelay_cache_went_back_total{type="cds"} 30`)
	r.shows("/upstreams", `"went_back": 30`)
	const message = "a new stream of an upstream has older content than clients"
	if log := r.log.String(); strings.Count(log, message) != 1 || !strings.Contains(log, "resources=30") {
		t.Errorf("logged %s", log)
	}
}
