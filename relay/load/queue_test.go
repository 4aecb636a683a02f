package load

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Waiters that leave from wherever they stand leave the turns of the others as they are: parties have turns, then the
// connections of each, then those that came through a connection in order.
func TestQueueTurns_LIM2(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q queue
		var parties []*modelParty
		model := func(from From) *modelFlow {
			p := find(&parties, func(p *modelParty) bool { return p.from == from.Party }, &modelParty{from: from.Party})
			return find(&p.flows, func(f *modelFlow) bool { return f.from == from.Connection }, &modelFlow{from: from.Connection})
		}
		var all []*waiter
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				from := From{Party: rapid.IntRange(0, 3).Draw(t, "party"), Connection: rapid.IntRange(0, 2).Draw(t, "connection")}
				w := new(waiter)
				q.push(w, from)
				f := model(from)
				f.waiters, all = append(f.waiters, w), append(all, w)
			case 2:
				if len(all) > 0 {
					w := all[rapid.IntRange(0, len(all)-1).Draw(t, "leaves")]
					if got, want := q.remove(w), drop(&parties, w); got != want {
						t.Fatalf("remove reports %t, want %t", got, want)
					}
				}
			case 3:
				if got, want := q.first(), next(&parties); got != want {
					t.Fatalf("%p is first, want %p", got, want)
				}
			}
			n := 0
			for _, p := range parties {
				for _, f := range p.flows {
					n += len(f.waiters)
				}
			}
			if q.n != n || q.parties.order.Len() != len(parties) {
				t.Fatalf("%d wait of %d parties, want %d of %d", q.n, q.parties.order.Len(), n, len(parties))
			}
		}
	})
}

// modelParty and modelFlow are the queue as lists.
type modelParty struct {
	from  any
	flows []*modelFlow
}

type modelFlow struct {
	from    any
	waiters []*waiter
}

func find[T any](all *[]T, is func(T) bool, otherwise T) T {
	if i := slices.IndexFunc(*all, is); i >= 0 {
		return (*all)[i]
	}
	*all = append(*all, otherwise)
	return otherwise
}

// drop takes a waiter out, and parties and connections without any.
func drop(parties *[]*modelParty, w *waiter) (waited bool) {
	for _, p := range *parties {
		for _, f := range p.flows {
			if i := slices.Index(f.waiters, w); i >= 0 {
				f.waiters, waited = slices.Delete(f.waiters, i, i+1), true
			}
		}
		p.flows = slices.DeleteFunc(p.flows, func(f *modelFlow) bool { return len(f.waiters) == 0 })
	}
	*parties = slices.DeleteFunc(*parties, func(p *modelParty) bool { return len(p.flows) == 0 })
	return waited
}

// next takes the first waiter out.
func next(parties *[]*modelParty) *waiter {
	if len(*parties) == 0 {
		return nil
	}
	p := (*parties)[0]
	f := p.flows[0]
	w := f.waiters[0]
	p.flows = append(p.flows[1:], f)
	*parties = append((*parties)[1:], p)
	drop(parties, w)
	return w
}

// Half a million waiters of one connection that leave, in the order in which they came or in the other, are gone before
// anybody notices. Where each of them looks for its place this takes more than ten minutes.
func TestQueueLeaving_LIM2(t *testing.T) {
	const waiters = 500_000
	for _, newest := range []bool{false, true} {
		var q queue
		waiting := make([]*waiter, waiters)
		for i := range waiting {
			waiting[i] = new(waiter)
			q.push(waiting[i], From{1, 1})
		}
		if newest {
			slices.Reverse(waiting)
		}
		for _, w := range waiting {
			q.remove(w)
		}
		if q.n != 0 || q.oldest() != nil {
			t.Errorf("%d wait", q.n)
		}
	}
}

// BenchmarkLeave measures what one of so many waiters of a connection costs that waits and leaves. They leave in the
// order in which they came.
func BenchmarkLeave(b *testing.B) {
	for name, n := range map[string]int{"100": 100, "100000": 100_000} {
		b.Run(name, func(b *testing.B) {
			var q queue
			waiting := make([]*waiter, n)
			for i := range waiting {
				waiting[i] = new(waiter)
				q.push(waiting[i], From{1, 1})
			}
			for i := 0; b.Loop(); i = (i + 1) % n {
				q.remove(waiting[i])
				q.push(waiting[i], From{1, 1})
			}
		})
	}
}
