package resolve

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// What clients of the model ask for: single names and globs, with and without
// alternatives, and entries. No two mean
// resources of the same names.
func modelNames() []string {
	d, e := "m/1", "n/1"
	return []string{
		at("a", d) + "#alt=" + at("b", e),
		at("b", d) + "#alt=" + at("a", e),
		nameOf(at("a", d) + "#alt=" + at("b", e) + "%23alt=" + at("c", e)).Key,
		at("c", d),
		at("c", e) + "#alt=" + at("a", d),
		list("a", d) + "#entry=x",
		nameOf(list("c", d) + "#entry=x,alt=" + at("b", e)).Key,
		at("a", "d/*") + "#alt=" + at("b", "e/*"),
		at("c", "d/*") + "#alt=" + at("b", "e/*"),
		at("c", "e/*"),
	}
}

// model goes through random steps. At rest it knows what every client has to hold.
type model struct {
	*world

	*rand.Rand

	clients []*client
	wanted  map[*client]map[string]bool
	ever    *client // collects after each step, and wants everything
	steps   []string
	version int
}

// TestModel takes upstreams away and back, changes what they have, and has clients of
// all forms come and go. At rest every client holds exactly what the places that serve
// have; and on the way nothing is ever taken away that every place has (LOC-5).
func TestModel_LOC1_LOC5_LIST4_GLOB4_NAME4_RES2(t *testing.T) {
	for seed := range uint64(120) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			run(t, func(w *world) {
				m := &model{
					world: w, Rand: rand.New(rand.NewPCG(seed, 1)),
					wanted: make(map[*client]map[string]bool),
				}
				t.Cleanup(func() {
					if t.Failed() {
						t.Log(strings.Join(m.steps, "\n"))
					}
				})
				m.ever = m.comes()
				for _, name := range modelNames() {
					m.wants(m.ever, name)
				}
				for range 60 {
					m.step()
					m.watch()
					if m.IntN(8) == 0 {
						m.rest()
					}
				}
				m.rest()
				for _, c := range m.clients {
					c.c.Leave()
				}
			})
		})
	}
}

func (m *model) comes() *client {
	form := delivery.Form{TTL: m.IntN(2) == 0}
	if len(m.clients) > 0 && m.IntN(2) == 0 {
		form = delivery.Form{State: true, Wrapped: true}
	}
	c := m.join(form)
	m.clients = append(m.clients, c)
	m.wanted[c] = make(map[string]bool)
	return c
}

func (m *model) wants(c *client, name string) {
	if !m.wanted[c][name] {
		m.wanted[c][name] = true
		c.wants(name)
	}
}

func (m *model) note(format string, args ...any) {
	m.steps = append(m.steps, fmt.Sprintf(format, args...))
}

func pick[E any](m *model, all []E) E { return all[m.IntN(len(all))] }

func (m *model) step() {
	p := m.planes[pick(m, []string{"a", "b", "c"})]
	switch m.IntN(10) {
	case 0, 1:
		m.turn(p)
	case 2:
		d := time.Duration(m.IntN(15)) * time.Second
		m.note("wait %v", d)
		m.wait(d)
	case 3:
		m.note("a client comes")
		m.comes()
	case 4:
		if c := pick(m, m.clients); c != m.ever && m.IntN(3) == 0 {
			m.note("a client leaves")
			c.c.Leave()
			m.clients = slices.DeleteFunc(m.clients, func(o *client) bool { return o == c })
		}
	case 5:
		c, name := pick(m, m.clients), pick(m, modelNames())
		if c != m.ever && m.wanted[c][name] {
			m.note("a client drops %s", name)
			delete(m.wanted[c], name)
			c.drops(name)
		} else {
			m.note("a client wants %s", name)
			m.wants(c, name)
		}
	case 6:
		pick(m, m.clients).collect()
	case 7:
		name := pick(m, m.namesAt(p))
		m.note("%s is gone", name)
		p.lacks(name)
	default:
		r := m.something(p)
		m.note("%s is at %s", r.Name, r.Version)
		p.has(r)
	}
}

// turn takes an upstream away or back.
func (m *model) turn(p *plane) {
	if p.up {
		m.note("%s goes", p.name())
		p.goes()
	} else {
		m.note("%s comes", p.name())
		p.comes()
	}
}

func (m *model) namesAt(p *plane) []string {
	n := p.name()
	return []string{
		at(n, "m/1"), at(n, "n/1"), at(n, "d/1"), at(n, "d/2"), at(n, "e/1"), at(n, "e/2"),
		list(n, "m/1"), list(n, "m/1"),
	}
}

// something is anything that a control plane may have.
func (m *model) something(p *plane) *wire.Resource {
	m.version++
	v := fmt.Sprint(m.version)
	switch name := pick(m, m.namesAt(p)); {
	case strings.Contains(name, "Collection/"):
		return directoryOf(name, v, []string{"x@" + v, "y@" + v}[m.IntN(2)])
	case m.IntN(8) == 0:
		to := m.planes[pick(m, []string{"a", "b", "c"})]
		return redirect(name, pick(m, m.namesAt(to)[:6]))
	default:
		return a(name, v)
	}
}

// watch sees that nothing is taken from a client that every place has.
func (m *model) watch() {
	before := maps.Clone(m.ever.held)
	m.ever.collect()
	for name := range before {
		if _, ok := m.ever.held[name]; ok {
			continue
		}
		for _, wanted := range modelNames() {
			if m.everywhere(wanted, name) {
				m.Fatalf("%s was taken away, though every place of %s has it", name, wanted)
			}
		}
	}
}

// everywhere reports whether all places of what is wanted have a name, which is what
// is wanted or a member of it.
func (m *model) everywhere(wanted, name string) bool {
	n := parse(wanted)
	if n.IsGlob() && keyer.GlobOf(name) != n.Canonical() || !n.IsGlob() && name != wanted {
		return false
	}
	for place := range n.Alternatives() {
		key := place.Canonical()
		if n.IsGlob() {
			key = keyer.MemberOf(key, name)
		}
		r := m.planes[place.Authority].truth[key]
		if r == nil || place.Entry() != "" {
			return false
		}
	}
	return true
}

func parse(name string) keyer.Name {
	n, err := keyer.Parse(name)
	if err != nil {
		panic(err)
	}
	return n
}

// rest lets enough time pass for everything to be decided, and compares what clients
// hold with what they should.
func (m *model) rest() {
	m.note("rest")
	m.wait(3 * after)
	m.watch()
	for _, c := range m.clients {
		c.collect()
		for name := range m.wanted[c] {
			m.compare(c, name)
		}
	}
}

func (m *model) compare(c *client, wanted string) {
	n := parse(wanted)
	if !n.IsGlob() {
		if version, sure := m.truth(n, ""); sure && c.held[wanted] != version {
			m.Fatalf("a client holds %s at %q, should be %q", wanted, c.held[wanted], version)
		}
		return
	}
	for _, segment := range []string{"1", "2"} {
		name := strings.TrimSuffix(n.Canonical(), "*") + segment
		if version, sure := m.truth(n, segment); sure && c.held[name] != version {
			m.Fatalf("a client holds %s of %s at %q, should be %q", name, wanted, c.held[name], version)
		}
	}
}

// truth is the version that a name, or a glob's member, has at the place that serves,
// "" for none. It is not sure where no place can be reached, or an alternative has nothing.
func (m *model) truth(n keyer.Name, segment string) (version string, sure bool) {
	first := true
	for place := range n.Alternatives() {
		p := m.planes[place.Authority]
		if !p.up {
			first = false
			continue
		}
		key := place.Canonical()
		if segment != "" {
			key = strings.TrimSuffix(key, "*") + segment
		}
		r := p.truth[key]
		switch {
		case r == nil && segment != "": // an alternative's glob counts as it is
			return "", true
		case r == nil:
			return "", first
		case place.Entry() != "":
			entries, err := entriesOf(r)
			if err != nil {
				return "", false
			}
			if e := entries[place.Entry()]; e != nil {
				return e.Version, true
			}
			return "", first
		}
		return r.Version, true
	}
	return "", false
}
