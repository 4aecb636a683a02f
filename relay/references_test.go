package relay

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// modelGraph is what refers to what, with distances worked out from nothing.
type modelGraph struct {
	limit   int
	refers  map[string][]string
	watched map[string]bool
}

// distances walks from what is watched.
func (m *modelGraph) distances() map[string]int {
	all := make(map[string]int)
	now := []string{}
	for n, is := range m.watched {
		if is {
			all[n] = 0
			now = append(now, n)
		}
	}
	for d := 1; d <= m.limit; d++ {
		var next []string
		for _, n := range now {
			for _, to := range m.refers[n] {
				if _, known := all[to]; !known {
					all[to] = d
					next = append(next, to)
				}
			}
		}
		now = next
	}
	return all
}

// TestReferences holds the graph to one that is worked out anew each time: what is led
// to within the limit is fetched ahead, whatever came and went before, circles included.
func TestReferences_LIST2_LIST3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 4).Draw(t, "limit")
		g := newReferences(limit)
		m := &modelGraph{limit: limit, refers: map[string][]string{}, watched: map[string]bool{}}
		pinned := map[string]bool{}
		names := []string{"a", "b", "c", "d", "e", "f"}
		settle := func() {
			moved := g.settle()
			for _, n := range moved {
				switch n.led() {
				case true:
					pinned[n.key.name] = true
				default:
					delete(pinned, n.key.name)
				}
			}
			for _, n := range moved {
				g.forget(n, func(n *node) {
					if n.watched || n.led() || n.referrers > 0 {
						t.Fatalf("forgot %+v", n)
					}
				})
			}
			// What is forgotten is not read again before somebody has it again.
			far := m.distances()
			for n := range m.refers {
				if _, known := far[n]; !known {
					delete(m.refers, n)
				}
			}
			check(t, g, m, pinned)
		}
		t.Repeat(map[string]func(*rapid.T){
			"watch": func(t *rapid.T) {
				name, is := rapid.SampledFrom(names).Draw(t, "name"), rapid.Bool().Draw(t, "watched")
				if n := g.nodes[nodeKey{name: name}]; n != nil || is {
					m.watched[name] = is
					g.watch(g.node(nodeKey{name: name}), is)
				}
			},
			"refer": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "name")
				n := g.nodes[nodeKey{name: name}]
				if n == nil || (!n.watched && !pinned[name]) {
					return
				}
				to := rapid.SliceOfN(rapid.SampledFrom(names), 0, 4).Draw(t, "to")
				var targets []*node
				for _, x := range to {
					if x != name {
						target := g.node(nodeKey{name: x})
						g.look(target)
						targets = append(targets, target)
					}
				}
				m.refers[name] = slices.DeleteFunc(to, func(x string) bool { return x == name })
				g.refer(n, targets)
			},
			"settle": func(*rapid.T) { settle() },
		})
		settle()
		for _, name := range names {
			if n := g.nodes[nodeKey{name: name}]; n != nil {
				m.watched[name] = false
				g.watch(n, false)
			}
		}
		settle()
		if len(g.nodes) > 0 || len(pinned) > 0 {
			t.Fatalf("left: %d nodes, %v pinned", len(g.nodes), pinned)
		}
	})
}

// check compares distances and pins.
func check(t *rapid.T, g *references, m *modelGraph, pinned map[string]bool) {
	want := m.distances()
	led := map[string]bool{}
	for n, to := range m.refers {
		if d, known := want[n]; known && d < m.limit {
			for _, x := range to {
				led[x] = true
			}
		}
	}
	if fmt.Sprint(pinned) != fmt.Sprint(led) {
		t.Fatalf("pinned %v, want %v", pinned, led)
	}
	for name, d := range want {
		if n := g.nodes[nodeKey{name: name}]; n == nil || n.distance != d {
			t.Fatalf("%s is at %+v, want distance %d", name, n, d)
		}
	}
	for key, n := range g.nodes {
		if _, known := want[key.name]; !known && (n.distance <= m.limit || n.referrers == 0 || len(n.targets) > 0) {
			t.Fatalf("%s is kept at %+v", key.name, n)
		}
	}
}

// A member that moves from one directory to another between two looks is let go by
// nobody, and what a directory lists twice counts once.
func TestReferences_moved_LIST3(t *testing.T) {
	g := newReferences(5)
	a, b, x := g.node(nodeKey{name: "a"}), g.node(nodeKey{name: "b"}), g.node(nodeKey{name: "x"})
	g.watch(a, true)
	g.watch(b, true)
	g.refer(a, []*node{x, x})
	g.settle()
	if x.distance != 1 || x.referrers != 1 || len(a.targets) != 1 {
		t.Fatalf("%+v", x)
	}
	g.refer(a, nil)
	g.refer(b, []*node{x})
	if g.settle(); x.distance != 1 || x.referrers != 1 || !x.led() {
		t.Errorf("%+v", x)
	}
}
