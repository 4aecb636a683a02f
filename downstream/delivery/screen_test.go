package delivery

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
)

var accessSeeds = flag.Int("access.seeds", 300, "random schedules of the property of access rules")

// denying is a judge that denies names; off is a use that it does not judge.
type denying struct {
	names map[string]bool
	off   Use
}

// everyUse is judged.
const everyUse = Use(255)

func (d denying) ByName(string) bool { return true }
func (d denying) Allows(use Use, _, name string) bool {
	return use == d.off || !d.names[name]
}

// tale is one random schedule in two worlds. In the world "with" the control plane has what the
// clients may not get, in the other it never had. A client must not see any difference.
type tale struct {
	random  *rand.Rand
	shape   shape
	off     Use  // a check that is taken out; everyUse: none
	reloads bool // a reload narrows what clients get
	narrow  bool // false: that check is taken out

	worlds [2]*bed // with and without
	denied map[string]bool
	later  map[string]bool // denied from the reload on
	names  []string        // of resources
	stands map[string]string
	number int
	people []*both
	after  bool // the reload has come
}

// shape is what the clients of a schedule subscribe to.
type shape int

const (
	asAll       shape = iota // "*"
	asGlob                   // a glob
	asAliases                // names that other resources serve
	asCrossed                // xdstp names that resources with plain names serve
	asMixed                  // "*", and names that its members serve
	asRedirects              // names that the relay resolves
	shapes
)

// both is one client, in both worlds.
type both struct {
	peers [2]*peer
	polls [2]*Place // of a client that polls, in place of peers
	form  Form
	held  map[string]string
	subs  []string
}

func newTale(t testing.TB, seed uint64) *tale {
	t.Helper()
	x := &tale{random: rand.New(rand.NewPCG(seed, 1)), off: everyUse, narrow: true, denied: map[string]bool{}, later: map[string]bool{}, stands: map[string]string{}}
	x.shape = shape(x.random.IntN(int(shapes)))
	x.reloads = x.random.IntN(3) == 0
	for w := range x.worlds {
		if x.shape == asRedirects {
			x.worlds[w] = resolvedBed(t)
		} else {
			x.worlds[w] = newBed(t, cache.Limits{})
		}
	}
	for i := range 6 {
		name := fmt.Sprintf("m%d", i)
		switch x.shape {
		case asGlob:
			name = strings.TrimSuffix(globG, "*") + name
		case asRedirects:
			name = strings.TrimSuffix(altH1, "1") + name
		}
		x.names = append(x.names, name)
		switch x.random.IntN(3) {
		case 0:
			x.denied[name] = true
		case 1:
			x.later[name] = x.reloads
		}
	}
	return x
}

// aliases are the names that other resources serve.
func (x *tale) aliases() []string {
	list := []string{"x0", "x1", "x2"}
	if x.shape == asCrossed {
		for i := range list {
			list[i] = strings.TrimSuffix(globG, "*") + list[i]
		}
	}
	return list
}

// judge is the judge of all clients now.
func (x *tale) judge() Judge {
	d := denying{names: map[string]bool{}, off: x.off}
	for name := range x.denied {
		d.names[name] = true
	}
	if x.after && x.narrow {
		maps.Copy(d.names, x.later)
	}
	return d
}

// each calls f with both worlds.
func (x *tale) each(f func(w int, b *bed)) {
	for w, b := range x.worlds {
		f(w, b)
	}
}

// join brings a client of a random form.
func (x *tale) join() {
	forms := []Form{{}, {State: true}, {State: true, Wrapped: true}}
	p := &both{form: forms[x.random.IntN(len(forms))], held: map[string]string{}}
	switch x.shape {
	case asAll:
		p.subs = []string{cache.Wildcard}
	case asGlob:
		p.subs = []string{globG}
	case asAliases, asCrossed:
		p.subs = x.aliases()
	case asMixed:
		p.subs = append([]string{cache.Wildcard}, x.aliases()...)
	case asRedirects:
		p.subs = []string{nameG1, nameG2}
	}
	poll := p.form.State && x.random.IntN(3) == 0
	x.each(func(w int, b *bed) {
		if poll {
			p.polls[w] = Join(b.store, func() {}, p.form)
			p.polls[w].JudgedBy(x.judge(), false)
			p.polls[w].Update(&Change{TypeURL: cds, Subscribe: names(p.subs)})
			return
		}
		x.enter(p, w, nil)
	})
	x.people = append(x.people, p)
}

// enter begins a client's stream in a world.
func (x *tale) enter(p *both, w int, held []string) {
	c := x.worlds[w].joinAs(p.form)
	c.s.JudgedBy(x.judge(), false)
	p.peers[w] = c
	c.resume(cds, held, p.subs...)
}

// comeBack ends a client's stream and begins another one. An incremental client presents what it
// holds, and guesses what it may not know.
func (x *tale) comeBack(p *both) {
	if p.peers[0] == nil {
		return
	}
	var held []string
	if !p.form.State {
		for name, version := range p.held {
			held = append(held, name+"@"+version)
		}
		if x.shape == asAll || x.shape == asGlob {
			name := x.names[x.random.IntN(len(x.names))]
			if _, has := p.held[name]; !has {
				held = append(held, name+"@"+fmt.Sprint(x.random.IntN(x.number+1)))
			}
		}
	}
	x.each(func(w int, _ *bed) {
		p.peers[w].leave()
		x.enter(p, w, held)
	})
	p.held = map[string]string{}
}

// act has the control plane say something: in the world without, only what clients may get.
func (x *tale) act() {
	x.number++
	name := x.names[x.random.IntN(len(x.names))]
	content := fmt.Sprintf("%s@%d", name, x.number)
	switch x.shape {
	case asAliases, asCrossed, asMixed:
		x.serve(x.aliases()[slices.Index(x.names, name)%3], name, content)
		return
	case asRedirects:
		x.serve([]string{nameG1, nameG2}[x.random.IntN(2)], name, content)
		return
	default:
	}
	what := x.random.IntN(6)
	if x.denied[name] {
		// An error of a member leaves open which members there are, so that lists wait. The
		// property leaves out that the client sees how long.
		what = max(what, 1)
	}
	x.each(func(w int, b *bed) {
		switch quiet := w == 1 && x.denied[name]; {
		case quiet:
			b.says(cds)
		case what == 0:
			b.fails(cds, name, codes.Unavailable)
		case what == 1:
			b.says(cds, "-"+name)
		default:
			b.says(cds, "+"+content)
		}
	})
}

// serve has a name stand for a resource, or for nothing. In the world without, a name that stands for
// what clients may not get stands for nothing.
func (x *tale) serve(alias, name, content string) {
	if x.random.IntN(4) == 0 {
		name, content = "", ""
	}
	was, answered := x.stands[alias]
	x.stands[alias] = name
	x.each(func(w int, b *bed) {
		was, name, content := was, name, content
		if w == 1 && x.denied[was] {
			was = ""
		}
		if w == 1 && x.denied[name] {
			name, content = "", ""
		}
		if name != "" || was != "" || !answered {
			x.lead(b, alias, was, name, content)
		}
	})
}

// lead has a name lead to content in one world, and to nothing without content. was is where it led
// before.
func (x *tale) lead(b *bed, alias, was, name, content string) {
	switch {
	case x.shape == asRedirects && content == "":
		b.resolves("-" + alias)
	case x.shape == asRedirects:
		b.resolves("+" + alias + " " + content)
	case content == "" && was == "":
		b.says(cds, "-"+alias)
	case content == "":
		b.says(cds, "-"+was)
	case was == "" || was == name:
		b.says(cds, "+"+content+"|"+alias)
	default:
		b.says(cds, "+"+content+"|"+alias, "-"+was)
	}
}

// answerAgain has the control plane answer the names that stand for nothing: the relay forgets
// this when no client asks for a name any more, and asks again.
func (x *tale) answerAgain() {
	for _, alias := range slices.Sorted(maps.Keys(x.stands)) {
		is := x.stands[alias]
		x.each(func(w int, b *bed) {
			if is == "" || (w == 1 && x.denied[is]) {
				x.lead(b, alias, "", "", "")
			}
		})
	}
}

// reload denies more names to all clients.
func (x *tale) reload() {
	x.after = true
	for _, p := range x.people {
		x.each(func(w int, _ *bed) {
			if p.peers[w] != nil {
				p.peers[w].s.JudgedBy(x.judge(), true)
			} else {
				p.polls[w].JudgedBy(x.judge(), true)
			}
		})
	}
}

// look collects what each client gets, and gives the first difference between the worlds, or the
// first resource that the client may not have.
func (x *tale) look() string {
	for i, p := range x.people {
		var said [2][]string
		x.each(func(w int, _ *bed) { said[w] = p.hear(w) })
		if !slices.Equal(said[0], said[1]) {
			return fmt.Sprintf("client %d (%+v) sees %q, and without what it may not have %q", i, p.form, said[0], said[1])
		}
		for _, line := range said[0] {
			for name := range x.later {
				if x.after && x.later[name] && strings.Contains(line, "+"+name+"@") {
					return fmt.Sprintf("client %d is sent %s after the reload that denies it: %q", i, name, line)
				}
			}
			p.note(line)
		}
	}
	return ""
}

// note records what an incremental client holds.
func (p *both) note(line string) {
	for word := range strings.FieldsSeq(line) {
		name, version, ok := strings.Cut(strings.TrimPrefix(word, "+"), "@")
		switch {
		case p.form.State:
		case strings.HasPrefix(word, "+") && ok:
			p.held[name] = version
		case strings.HasPrefix(word, "-"):
			delete(p.held, word[1:])
		}
	}
}

// hear gives all that a client is sent in one world.
func (p *both) hear(w int) []string {
	if c := p.polls[w]; c != nil {
		s := TakeSnapshot([]*Place{c}, cds)
		line := []string{s.Version, s.Digest, fmt.Sprint(s.Complete, s.Known, s.Restored)}
		for _, r := range s.Resources {
			line = append(line, "+"+r.Name+"@"+r.Resource.Version+" "+r.Resource.Name)
		}
		for _, e := range s.Errors {
			line = append(line, "!"+e.Name)
		}
		return line
	}
	c := p.peers[w]
	if !p.form.State {
		return sorted(c.collect())
	}
	said := c.lists()
	for i, b := range c.took {
		said[i] += " " + b.SystemVersion
	}
	return sorted(said)
}

// sorted sorts what each response has: in which order two names go that lead to nothing does not
// count.
func sorted(said []string) []string {
	for i, line := range said {
		words := strings.Fields(line)
		slices.Sort(words[1:])
		said[i] = strings.Join(words, " ")
	}
	return said
}

// play plays a schedule, and gives what went wrong.
func (x *tale) play() string {
	x.join()
	x.each(func(_ int, b *bed) {
		if x.shape != asRedirects {
			b.connect(0)
		}
	})
	for range 30 {
		switch n := x.random.IntN(10); {
		case n == 0 && len(x.people) < 4:
			x.join()
			x.answerAgain()
		case n == 1:
			x.comeBack(x.people[x.random.IntN(len(x.people))])
			x.answerAgain()
		case n == 2 && x.reloads && !x.after:
			x.reload()
		case n == 3 && x.shape != asRedirects:
			x.each(func(_ int, b *bed) { b.settle() })
		default:
			x.act()
		}
		if wrong := x.look(); wrong != "" {
			return wrong
		}
	}
	return ""
}

// No client is sent a byte of what it may not have, nor anything by which it could tell whether that
// exists: in the incremental form, in the state of the world, and when it polls.
func TestAccessIsNotTold_ACC2_ACC3(t *testing.T) {
	for seed := range uint64(*accessSeeds) {
		x := newTale(t, seed)
		if wrong := x.play(); wrong != "" {
			t.Fatalf("seed %d, shape %d, denied %v: %s", seed, x.shape, x.denied, wrong)
		}
	}
}

// With any one of the checks taken out the property fails.
func TestEachCheckIsNeeded_ACC3(t *testing.T) {
	for name, takeOut := range map[string]func(*tale){
		"content":    func(x *tale) { x.off = Content },
		"members":    func(x *tale) { x.off = Word },
		"versions":   func(x *tale) { x.off = Version },
		"the reload": func(x *tale) { x.narrow = false },
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(300) {
				x := newTale(t, seed)
				takeOut(x)
				if wrong := x.play(); wrong != "" {
					t.Logf("seed %d: %s", seed, wrong)
					return
				}
			}
			t.Error("no schedule shows that the check is missing")
		})
	}
}

// What a screen knows of aliases it says once, and only of those that another resource serves.
func TestScreenOfAliases_ACC3(t *testing.T) {
	var none *screen
	none.serves("a", "x")
	if none.hadServed("a") != "" || !none.lets("a", resource(cds, "x@1")) {
		t.Error("a client that may have all is denied something")
	}
	g := new(screen)
	g.serves("a", "a")
	if g.hadServed("a") != "" {
		t.Error("a resource serves itself")
	}
	g.serves("a", "x")
	g.serves("b", "x")
	g.serves("b", "y")
	for _, tc := range []struct{ alias, want string }{{"a", "x"}, {"a", ""}, {"b", "y"}, {"b", ""}, {"c", ""}} {
		if got := g.hadServed(tc.alias); got != tc.want {
			t.Errorf("%s was served by %q, want %q", tc.alias, got, tc.want)
		}
	}
	g.conceal("a")
	g.conceal("b")
	if !g.concealed["a"] || !g.concealed["b"] {
		t.Error("what was concealed is not known")
	}
	g.serveByOther("a", "a")
	g.serveByOther("b", "x")
	g.serveByOther("c", "y")
	if len(g.concealed) != 0 || g.byOthers["a"] || !g.byOthers["b"] || !g.byOthers["c"] {
		t.Errorf("concealed are %v, and by others %v", g.concealed, g.byOthers)
	}
}

// A resource is judged by the client's name for it and by its own: both must be allowed.
func TestScreenAllows_ACC3(t *testing.T) {
	g := &screen{judge: denying{names: map[string]bool{"no": true, "nor": true}, off: everyUse}}
	for _, tc := range []struct {
		name, served string
		want         bool
	}{
		{"a", "a", true}, {"a", "b", true}, {"no", "no", false}, {"a", "no", false}, {"no", "a", false}, {"no", "nor", false},
	} {
		if got := g.allows(Content, tc.name, tc.served); got != tc.want {
			t.Errorf("%s, served by %s, is allowed: %t", tc.name, tc.served, got)
		}
	}
	if got := g.withheld(resource(cds, "a@1|b,no,c,nor")); !slices.Equal(got, []string{"no", "nor"}) {
		t.Errorf("the aliases %q are withheld", got)
	}
}
