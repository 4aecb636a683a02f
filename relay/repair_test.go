package relay

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// broken is a place in a store whose check fails.
type broken struct{ bell cache.Bell }

func (b *broken) Bell() *cache.Bell { return &b.bell }
func (*broken) Check() error        { return errors.New("out of order") }

// sessionOf is the session of the only scope that has clients.
func (r *running) sessionOf() *session {
	r.Helper()
	for {
		if all := r.relay.hub.all(); len(all) == 1 {
			return all[0]
		}
	}
}

// After a panic a store is checked. One that is inconsistent is rebuilt: its clients come back to
// another one, are sent nothing again, and lose nothing.
func TestRebuild_SUR6(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1", "y": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(contents{"x": "1", "y": "1"})
	before := r.sessionOf()
	r.relay.repairs.suspects.add(before.store) // it is consistent
	before.store.Edit(func() { before.store.Enter(&broken{cache.NewBell(func() {})}, true) })
	r.relay.repairs.suspects.add(before.store)
	c.comesTo("be sent away", func() bool { return c.away == 1 })
	for r.sessionOf() == before {
		continue
	}
	a2 := r.sessionOf()
	for a2.store.Session().Wanted() == 0 {
		continue
	}
	r.comes("/metrics", "xdsrelay_cache_stores_rebuilt_total 1\n")
	c.comesTo("come back", func() bool { return r.relay.hub.users(a2) > 0 })
	if lost := c.lost(); lost != "" {
		t.Errorf("SUR-6: lost %q", lost)
	}
	c.mu.Lock()
	sent := c.sent
	c.mu.Unlock()
	if sent != 2 {
		t.Errorf("the client was sent %d resources, want the 2 of the beginning", sent)
	}
	if log := r.log.String(); !strings.Contains(log, "a store is inconsistent after a panic") || !strings.Contains(log, "out of order") {
		t.Errorf("log:\n%s", log)
	}
	r.check()
}

// failing is a feed that panics, and then does not.
type failing struct {
	runs *atomic.Int64
	feed
}

func (f failing) Run(context.Context) error {
	f.runs.Add(1)
	panic("a feed")
}

// What fills a store is begun anew after a panic.
func TestRefeed_SUR6(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(contents{"x": "1"})
	s := r.sessionOf()
	var runs atomic.Int64
	s.client.replace(failing{&runs, s.client.current()})
	r.comes("/metrics", `xdsrelay_panics_total{part="session"} 1`)
	for s.client.Status().Opened == 0 || s.client.Status().State != upstream.StateConnected {
		s.client.Tell(ack.Outcome{})
	}
	if runs.Load() != 1 || r.sessionOf() != s {
		t.Errorf("%d runs", runs.Load())
	}
	if lost := c.lost(); lost != "" {
		t.Errorf("lost %q", lost)
	}
}

// A page of the admin port that panics is an error, and a reload that does leaves the relay running.
func TestPages_SUR6(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1"})
	r := run(t, configOf(upstreamAt("a", a.address)))
	c := r.join("client")
	c.holds(contents{"x": "1"})
	s := r.sessionOf()
	s.store.Edit(func() { s.store.Enter(panicking{}, true) })
	if code, _ := r.ask(http.MethodGet, "/check", ""); code != http.StatusInternalServerError {
		t.Errorf("/check: %d", code)
	}
	r.shows("/metrics", `xdsrelay_panics_total{part="admin"} 1`)
	if err := r.relay.Contain(func() { panic("a reload") }); err == nil {
		t.Error("no error")
	}
	// A check that panics finds the store inconsistent, and the relay builds another one.
	r.relay.repairs.suspects.add(s.store)
	r.comes("/metrics", "xdsrelay_cache_stores_rebuilt_total 1\n")
	c.comesTo("be sent away", func() bool { return c.away == 1 })
}

type panicking struct{}

func (panicking) Bell() *cache.Bell { return new(cache.Bell) }
func (panicking) Check() error      { panic("checked") }

// A store that is rebuilt begins without a snapshot: what made the one before inconsistent may be in
// it, and would be restored again and again.
func TestRebuildWithoutSnapshot_SUR6(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1", "y": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Cache.Dir = t.TempDir()
	r := run(t, cfg)
	c := r.join("client")
	c.holds(contents{"x": "1", "y": "1"})
	before, kept := r.sessionOf(), r.relay.hub.snapshots
	kept.save(before)
	if _, image, err := kept.folder.Load(before.disk.id); err != nil || len(image.Tables) == 0 {
		t.Fatalf("no snapshot to begin with: %v", err)
	}
	before.store.Edit(func() { before.store.Enter(&broken{cache.NewBell(func() {})}, true) })
	r.relay.repairs.suspects.add(before.store)
	for r.relay.hub.users(before) > 0 || r.sessionOf() == before {
		continue
	}
	<-before.done
	after := r.sessionOf()
	for !after.disk.ready.Load() {
		continue
	}
	if log := r.log.String(); strings.Contains(log, "restored a snapshot") {
		t.Errorf("the inconsistent store's snapshot was restored:\n%s", log)
	}
	kept.save(before)
	if _, _, err := kept.folder.Load(before.disk.id); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a store that is of no use was written: %v", err)
	}
}
