package upstream

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// roomModel compares what names have room with what must be so, whatever changes (RES-17).
type roomModel struct {
	*testing.T
	names stateNames
	said  []string
	out   map[string]bool // as the Store was told
	sizes int             // how often a name was measured
}

func newRoomModel(t *testing.T) *roomModel {
	t.Helper()
	m := &roomModel{T: t, out: make(map[string]bool)}
	m.names = newStateNames(func(name string) int {
		m.sizes++
		return nameSize(name)
	})
	return m
}

// add asks for a name, and reports whether it may take room from others.
func (m *roomModel) add(name string) (early bool) {
	delete(m.out, name) // the Store takes it for asked for
	m.names.add(name)
	return m.names.names[name].had
}

// fit decides and checks. early reports whether names came that go before others.
func (m *roomModel) fit(most, spare int, early bool) {
	m.Helper()
	whole := m.names.total <= most
	out, in := m.names.fit(most, spare, whole, m.said)
	for _, name := range in {
		if !m.out[name] {
			m.Fatalf("the Store is told that there is room again for %q, which was not left out", name)
		}
	}
	for _, name := range out {
		m.out[name] = true
	}
	for _, name := range in {
		delete(m.out, name)
	}
	maps.DeleteFunc(m.out, func(name string, _ bool) bool { return !m.names.wants(name) })
	list := m.names.listed()
	total, used, first := 0, 0, ""
	var has []string
	for _, name := range m.names.inOrder() {
		total += nameSize(name)
		switch m.names.names[name].room {
		case hasRoom:
			has, used = append(has, name), used+nameSize(name)
		case lacksRoom:
			if first == "" && nameSize(name) <= most-spare {
				first = name
			}
		case undecided:
			m.Fatalf("%q is undecided", name)
		}
		if left := m.names.names[name].room == lacksRoom; left != m.out[name] {
			m.Fatalf("%q is left out: %t, and the Store was told %t", name, left, m.out[name])
		}
	}
	slices.Sort(has)
	switch {
	case !slices.Equal(has, list):
		m.Fatalf("listed %d names, %d have room", len(list), len(has))
	case total != m.names.total || used != m.names.used || len(m.names.names)-len(has) != m.names.leftOut:
		m.Fatalf("%d bytes, %d used, %d names left out: counted %d, %d, %d", total, used, len(m.names.names)-len(has), m.names.total, m.names.used, m.names.leftOut)
	case whole && len(has) < len(m.names.names), !whole && used > most:
		m.Fatalf("%d names of %d in %d bytes, there is room for %d", len(has), len(m.names.names), used, most)
	case first != "" && used+nameSize(first) <= most-spare:
		m.Fatalf("%q has no room, though %d bytes of %d are free", first, most-used, most)
	}
	for _, name := range m.said {
		if m.names.wants(name) && !slices.Contains(has, name) && !early {
			m.Fatalf("%q is taken back", name)
		}
	}
	m.said = list
	m.checkQueue()
}

// checkQueue verifies that each name waits once, and that not many names are queued that do not wait (LIM-3).
func (m *roomModel) checkQueue() {
	m.Helper()
	n := &m.names
	seen := make(map[queued]bool)
	for _, q := range n.queue {
		if seen[q] {
			m.Fatalf("%q is queued twice", q.name)
		}
		seen[q] = true
	}
	for name, p := range n.names {
		if q := (queued{p.order, name}); p.queued != seen[q] {
			m.Fatalf("%q is queued: %t, and says %t", name, seen[q], p.queued)
		}
	}
	lacking := n.lacking()
	if slices.Sort(lacking); len(lacking) != n.leftOut || len(slices.Compact(lacking)) != n.leftOut {
		m.Fatalf("%d names are left out: %q", n.leftOut, lacking)
	}
	if len(n.queue) > 2*n.leftOut+minQueue {
		m.Fatalf("%d names are queued for %d that wait", len(n.queue), n.leftOut)
	}
}

func TestRES17RoomModel(t *testing.T) {
	for seed := range uint64(200) {
		m, r := newRoomModel(t), rand.New(rand.NewPCG(seed, 0))
		name := func() string {
			i := r.IntN(60)
			return fmt.Sprintf("%d-%s", i, strings.Repeat("n", i*i%97))
		}
		most := 500 + r.IntN(2000)
		for range 300 {
			early := false
			if r.IntN(4) == 0 {
				m.names.gone = nil
			}
			for range 1 + r.IntN(4) {
				switch r.IntN(12) {
				case 0:
					m.add(wildcard)
					early = true
				case 1:
					m.names.remove(wildcard)
				case 2, 3, 4, 5, 6:
					m.names.remove(name())
				default:
					early = m.add(name()) || early
				}
			}
			if r.IntN(100) == 0 {
				most += r.IntN(300) // the first request of a stream has the node
			}
			m.fit(most, most/8, early)
		}
	}
}

// A name that has no room takes no more memory when clients ask for it again and again, or drop it in between.
func TestRES17AskedAgain_LIM3(t *testing.T) {
	const room, asked, waits = "has room for itself", "asked again", "waits"
	for what, again := range map[string]func(m *roomModel){
		"asked for again":      func(m *roomModel) { m.add(asked) },
		"dropped in between":   func(m *roomModel) { m.names.remove(asked); m.add(asked) },
		"dropped for a moment": func(m *roomModel) { m.names.gone = nil; m.names.remove(asked); m.add(asked) },
		"dropped for longer":   func(m *roomModel) { m.names.remove(asked); m.names.gone = nil; m.add(asked) },
	} {
		t.Run(what, func(t *testing.T) {
			m := newRoomModel(t)
			m.add(room)
			m.add(asked)
			m.add(waits)
			most := nameSize(room)
			m.fit(most, 0, false)
			for range 10 * minQueue {
				again(m)
				m.fit(most, 0, false)
			}
			m.names.remove(room)
			m.fit(most, 0, false)
		})
	}
}

// A change measures the names that it changes, and no others (LIM-2).
func TestRES17ChangeOverLimit_LIM2(t *testing.T) {
	const names, size = 60_000, 100
	m := newRoomModel(t)
	name := func(i int) string { return fmt.Sprintf("%098d", i) }
	for i := range names {
		m.names.add(name(i))
	}
	most := names / 2 * size
	m.fit(most, answerRoom, false)
	for i, change := range map[string]func(){
		"a name more":           func() { m.names.add(name(names)) },
		"one that was left out": func() { m.names.remove(name(names - 1)) },
		"one that had room":     func() { m.names.remove(name(0)) },
	} {
		m.sizes = 0
		change()
		m.names.fit(most, answerRoom, false, m.said)
		if m.sizes > 20 {
			t.Errorf("%s: %d names were measured", i, m.sizes)
		}
	}
}

// Names that had room when the list was made last are forgotten, with the memory that they took (LIM-3).
func TestRES17ChangesAreForgotten_LIM3(t *testing.T) {
	const names = 60_000
	m := newRoomModel(t)
	for i := range names {
		m.add(fmt.Sprintf("%098d", i))
	}
	m.names.fit(names*200, 0, true, nil)
	before := m.names.changed
	if list := m.names.listed(); len(list) != names || len(m.names.changed) != 0 || len(before) != names {
		t.Errorf("%d names are listed, and the map that had them is kept: %t", len(list), len(before) == 0)
	}
}
