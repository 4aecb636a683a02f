package simulate

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// In some seeds the control planes count versions instead of making them of contents, and now and then they
// begin to count anew: a version that a client has stands for other content then (ACK-4). What a relay knew of
// versions it must not forget in such a seed: nobody could tell the contents apart.

// opRecount has the control planes change contents and count anew, while some clients are away.
const opRecount kind = "count-anew"

// mostRecounts is how many of these such a seed has at most, and recountTime how long clients are away at most.
const (
	mostRecounts = 3
	recountTime  = 30 * time.Second
)

// recountsOf are the operations of this kind. What else a seed does is the same without them.
func recountsOf(seed uint64, id int, before time.Duration) []op {
	if !choicesOf(seed).counters {
		return nil
	}
	r := rand.New(rand.NewPCG(seed, 4))
	var all []op
	for range 1 + r.IntN(mostRecounts) {
		at := 5*time.Second + time.Duration(r.Int64N(int64(before)))
		all = append(all, op{
			id: id + len(all), at: at.Round(time.Millisecond), kind: opRecount,
			dur: 5*time.Second + time.Duration(r.Int64N(int64(recountTime))).Round(time.Millisecond),
			a:   r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16),
		})
	}
	return all
}

// countersOf is what the seed makes of the versions of its control planes.
func countersOf(seed uint64, c *choices) {
	c.counters = chance(seed, "counters")%5 == 0 && strings.Contains(c.first, "DELTA")
	if c.counters {
		c.behaviour.DigestVersions, c.behaviour.IgnoreVersions = false, true
	}
}

// skips reports whether an operation is left out: a relay would forget versions by it, or the guard or an
// operator would have it hold contents under them.
func (s *simulation) skips(o op) bool {
	some := []kind{
		opUnset, opMove, opBreak, opCrashPlane, opCut, opCrash, opRestart, opReload, opFreeze, opRollback, opEmpty, opDelete, opAlone, opBehind, opCold,
	}
	return s.choices.counters && (slices.Contains(some, o.kind) || slices.Contains(losses, o.kind))
}

// recount changes contents while some clients are away, and has the control planes count anew.
func (s *simulation) recount(o op) {
	var away []*client
	for _, c := range s.clients {
		if c.n%3 == o.a%3 {
			away = append(away, c)
			s.network.sever(c.host, c.at)
			s.network.sever(c.at, c.host)
			s.network.reset(c.host, c.at)
		}
	}
	s.later(o, func() {
		for _, c := range away {
			s.network.mend(c.host, c.at)
			s.network.mend(c.at, c.host)
		}
	})
	for i := range 12 {
		kinds := []string{plane.Endpoints, plane.Cluster, plane.Route, plane.Listener}
		names := universe(kinds[i%len(kinds)])
		k := plane.Key{TypeURL: kinds[i%len(kinds)], Name: names[(o.b+i*i)%len(names)]}
		if s.contents.latest()[k] != nil {
			s.spread(s.contents.set(k.TypeURL, k.Name))
		}
	}
	s.passAlone(time.Second)
	s.disturb()
	for _, p := range s.planes {
		if p.up {
			s.stop(p)
			s.contents.recount(p.host)
			s.serve(p)
			s.count("counted anew", 1)
		}
	}
}

// recount has a control plane that is stopped begin to count. It has the contents that it had.
func (c *contents) recount(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.planes[host]
	var all plane.Change
	for _, k := range sortedKeys(at.now) {
		x := at.now[k]
		all.Set = append(all.Set, plane.Resource{Name: x.name, Message: x.message, DoNotCache: x.unkept})
	}
	at.plane.Forget()
	at.plane.Apply(all)
}

// TestRecounts: seeds without counters have none of these operations, and the others have all else that they
// had.
func TestRecounts(t *testing.T) {
	with := 0
	for seed := range uint64(200) {
		some := slices.DeleteFunc(planOf(seed), func(o op) bool { return o.kind != opRecount })
		if counters := choicesOf(seed).counters; counters != (len(some) > 0) {
			t.Errorf("seed %d: counters %t, and %v", seed, counters, some)
		} else if counters {
			with++
		}
	}
	if with < 10 || with > 40 {
		t.Errorf("%d of 200 seeds count", with)
	}
}
