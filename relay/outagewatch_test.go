package relay

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/upstream"
)

// awayRelay is a relay with some control planes, each of which has a session and cannot be reached. Nothing runs.
type awayRelay struct {
	*Relay

	sessions []*session
	rung     []int // how often clients of each session were rung
}

// newAwayRelay has onRing called when clients of a session are rung.
func newAwayRelay(t *testing.T, n int, onRing func(i int)) *awayRelay {
	t.Helper()
	cfg := config.Default()
	for i := range n {
		u := config.DefaultUpstream()
		u.Name, u.Default, u.Endpoints = fmt.Sprint("plane-", i), i == 0, [][]string{{"127.0.0.1:1"}}
		if i > 0 {
			u.Authorities = []string{u.Name}
		}
		cfg.Upstreams = append(cfg.Upstreams, u)
	}
	r, err := New(cfg, Options{})
	if err != nil {
		t.Fatal(err)
	}
	a := &awayRelay{Relay: r, rung: make([]int, n)}
	for i := range n {
		p := r.hub.present()[fmt.Sprint("plane-", i)]
		p.outages = new(upstream.Outages)
		p.reaching.trying.Store(true) // no other attempt begins
		s := &session{key: sessionKey{plane: p.name, of: p}, store: r.cache.Open(cache.Source{})}
		s.disk.ready.Store(true)
		f, err := r.hub.open(s, p.upstream, r.hub.node, 0)
		if err != nil {
			t.Fatal(err)
		}
		s.client = newSupply(f, r.log)
		s.store.Edit(func() { s.store.Enter(&rungPlace{cache.NewBell(func() { a.rung[i]++; onRing(i) })}, false) })
		r.hub.sessions[s.key] = s
		a.sessions = append(a.sessions, s)
	}
	return a
}

// rungPlace is a client's place of which only the bell matters.
type rungPlace struct{ bell cache.Bell }

func (p *rungPlace) Bell() *cache.Bell { return &p.bell }
func (*rungPlace) Check() error        { return nil }

// look has the relay look which upstreams cannot be reached, long after all attempts began to fail.
func (a *awayRelay) look(t *testing.T) {
	t.Helper()
	now := time.Now()
	for _, s := range a.sessions {
		s.key.of.reaching.try(errors.New("refused"), now.Add(-time.Hour))
		s.key.of.reaching.try(errors.New("refused"), now)
	}
	a.outages.tell(t.Context(), now)
}

// expect looks which stores know of the outage, and which of them have told their clients.
func (a *awayRelay) expect(t *testing.T, what string, known, told []bool) {
	t.Helper()
	for i, s := range a.sessions {
		if err, is := s.store.Outage(); (err != nil) != known[i] || (err != nil && is) != told[i] {
			t.Errorf("%s: store %d knows of %v, and has told its clients: %t", what, i, err, is)
		}
	}
}

// All stores know of an outage before the clients of any are told: a client of two of them would be sent an
// error by the first one, and its stream could not end without a response any more.
func TestOutageOrder_ABS2(t *testing.T) {
	var a *awayRelay
	a = newAwayRelay(t, 4, func(i int) {
		for j, s := range a.sessions {
			if err, _ := s.store.Outage(); err == nil {
				t.Errorf("clients of store %d are told, and store %d does not know", i, j)
			}
		}
	})
	a.look(t)
	all := []bool{true, true, true, true}
	a.expect(t, "after the look", all, all)
	for i, n := range a.rung {
		if n != 1 {
			t.Errorf("clients of store %d were rung %d times", i, n)
		}
	}
}

// A store whose snapshot is read knows of the outage with the others: its clients wait, in all their stores,
// until it tells them.
func TestOutageWhileDiskIsRead_ABS2(t *testing.T) {
	a := newAwayRelay(t, 2, func(int) {})
	a.sessions[1].disk.ready.Store(false)
	both := []bool{true, true}
	for range 2 {
		a.look(t)
		a.expect(t, "while the snapshot is read", both, []bool{true, false})
	}
	a.sessions[1].disk.ready.Store(true)
	a.look(t)
	a.expect(t, "when it was read", both, both)
	if a.rung[0] != 1 || a.rung[1] != 1 {
		t.Errorf("clients were rung %v times", a.rung)
	}
}

// A store that is opened while its control plane is away knows that at once, and tells with the next look.
func TestOutageOfNewStore_ABS2(t *testing.T) {
	h := testHub(t, true)
	p := h.planes["plane"]
	begin := func(scope string) *session {
		t.Helper()
		s, err := h.acquire(claim{}, sessionKey{plane: "plane", of: p, scope: scope}, asItself, nil)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if err, _ := begin("before").store.Outage(); err != nil {
		t.Errorf("an outage without any attempt: %v", err)
	}
	p.reaching.tells("it is away")
	if err, told := begin("during").store.Outage(); err == nil || err.Message != "it is away" || told {
		t.Errorf("outage %v, told: %t", err, told)
	}
	p.reaching.tells("")
	if err, _ := begin("after").store.Outage(); err != nil {
		t.Errorf("an outage that is over: %v", err)
	}
}

// A panic while clients of one store are told keeps nothing from the clients of others. What a look did not get
// to is made up for by the next one.
func TestOutagePanic_SUR6_ABS2(t *testing.T) {
	for broken := range 3 {
		a := newAwayRelay(t, 3, func(i int) {
			if i == broken {
				panic("a bell")
			}
		})
		a.look(t)
		all := []bool{true, true, true}
		a.expect(t, "after the panic", all, all)
		if n := a.rung[(broken+1)%3] + a.rung[(broken+2)%3]; n != 2 {
			t.Errorf("clients of the other stores were rung %d times", n)
		}
		if suspects := a.repairs.suspects.take(); len(suspects) != 1 {
			t.Errorf("%d stores are to be checked", len(suspects))
		} else if _, is := suspects[a.sessions[broken].store]; !is {
			t.Error("another store is to be checked")
		}
	}
	a := newAwayRelay(t, 2, func(int) {})
	for _, s := range a.sessions {
		s.store.Session().SetOutage("a look that ended here")
	}
	a.expect(t, "before the next look", []bool{true, true}, []bool{false, false})
	a.look(t)
	a.expect(t, "after it", []bool{true, true}, []bool{true, true})
}
