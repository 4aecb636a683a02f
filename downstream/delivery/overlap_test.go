package delivery

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"pgregory.net/rapid"
)

// One resource may reach a client by its name, in several spellings, by its glob, in
// several, and by "*". Here all of these overlap, in every order in which one client or
// two can subscribe and unsubscribe, while the resource comes, changes and goes at every
// point of it; and after every step each client holds exactly what its subscriptions
// mean, was told exactly what was new, and the server is asked for their union.

// What overlaps: two spellings of a name, two of its glob, and "*".
const (
	overlapName  = nameQ
	overlapName2 = nameQ2
	overlapGlob  = globQ
	overlapGlob2 = globQ2
)

var overlapping = []string{overlapName, overlapName2, overlapGlob, overlapGlob2, cache.Wildcard}

// move is a step: a client's change of one subscription, or what becomes of the resource.
type move struct {
	client int
	name   string
	unsub  bool
	event  event
}

func (m move) String() string {
	switch {
	case m.event != noEvent:
		return string(m.event)
	case m.unsub:
		return fmt.Sprintf("client %d -%s", m.client, m.name)
	default:
		return fmt.Sprintf("client %d +%s", m.client, m.name)
	}
}

type event string

const (
	noEvent event = ""
	appears event = "the resource appears"
	changes event = "the resource changes"
	goes    event = "the resource goes"
	leaves  event = "the resource is no member of * any more"
)

// orders gives every order in which some things can begin and end, each before it ends:
// the place of each in its order stands there twice.
func orders(n int) [][]int {
	var all [][]int
	count := make([]int, n)
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == 2*n {
			all = append(all, slices.Clone(order))
			return
		}
		for i := range n {
			if count[i] < 2 {
				count[i]++
				extend(append(order, i))
				count[i]--
			}
		}
	}
	extend(nil)
	return all
}

// overlap is a run of moves against a store.
type overlap struct {
	*modelServer

	cache *cache.Cache
	form  Form
	star  bool         // "*" means the resource too
	twin  *modelServer // the same control plane as it fills the store of "*"; nil: there is one store
	log   []move
}

func newOverlap(t rapid.TB, source modelSource, full, star bool, form Form, clients int) *overlap {
	t.Helper()
	all := cache.New(cache.Limits{Idle: time.Hour}, nil)
	all.MinChunk = 1
	store := all.Open(source.source(full))
	o := &overlap{cache: all, form: form, star: star, modelServer: &modelServer{
		t: t, store: store, exists: map[string]content{}, now: time.Now(), source: source,
		starred: map[string]bool{overlapName: star},
	}}
	all.Now = func() time.Time { return o.now }
	for range clients {
		o.newPlace(form, full)
	}
	return o
}

// apart gives "*" a store of its own.
func (o *overlap) apart(full bool) {
	o.twin = &modelServer{
		t: o.t, store: o.cache.Open(o.source.source(full)), exists: map[string]content{}, now: o.now, source: o.source,
		starred: o.starred,
	}
	for _, c := range o.clients {
		c.client.Leave()
		c.stream = NewSubscriber(ringing(c.bell), o.form)
		c.client, c.star = c.stream.Join(o.store), c.stream.Join(o.twin.store)
	}
}

// servers are the control plane as it fills each of the stores.
func (o *overlap) servers() []*modelServer {
	if o.twin == nil {
		return []*modelServer{o.modelServer}
	}
	return []*modelServer{o.modelServer, o.twin}
}

func (o *overlap) set(name string, c *content) {
	for _, m := range o.servers() {
		m.set(name, c)
	}
}

func (o *overlap) quiet() {
	for _, m := range o.servers() {
		m.quiet()
	}
}

func (o *overlap) pass(d time.Duration) {
	for _, m := range o.servers() {
		m.pass(d)
	}
}

// exists reports whether the resource does.
func (o *overlap) there() bool { _, ok := o.exists[overlapName]; return ok }

func (o *overlap) happen(e event) {
	switch e {
	case goes:
		o.set(overlapName, nil)
		return
	case leaves:
		o.star = false
	default:
		o.version++
	}
	o.set(overlapName, &content{version: fmt.Sprint(o.version), inStar: o.star})
}

// rest lets everything come to rest, quiet times and what nobody wants included.
func (o *overlap) rest() {
	o.quiet()
	o.pass(2 * time.Second)
	o.cache.Expire(o.now.Add(2 * time.Hour))
	o.quiet()
	o.pass(2 * time.Second)
	o.quiet()
}

func (o *overlap) fail(format string, args ...any) {
	o.t.Helper()
	o.t.Fatalf("%v, form %+v: %s", o.log, o.form, fmt.Sprintf(format, args...))
}

// carry makes a move.
func (o *overlap) carry(m move) {
	o.log = append(o.log, m)
	switch {
	case m.event != noEvent:
		o.happen(m.event)
	case m.unsub:
		o.clients[m.client].update(nil, []string{m.name}, nil)
	default:
		o.clients[m.client].update([]string{m.name}, nil, nil)
	}
}

// step makes a move and looks at everything when it is at rest.
func (o *overlap) step(m move) {
	o.t.Helper()
	want := make([][]string, len(o.clients))
	for i, c := range o.clients {
		want[i] = o.expected(c, i, m)
	}
	o.carry(m)
	o.rest()
	o.look()
	for i, c := range o.clients {
		got := slices.Sorted(slices.Values(c.told))
		slices.Sort(want[i])
		if o.silent(m, got) {
			continue
		}
		if !o.form.State && !slices.Equal(got, want[i]) {
			o.fail("SUB-5, SUB-8, GLOB-5: client %d was told %v, want %v", i, got, want[i])
		}
		if o.form.State && len(want[i]) == 0 && len(got) > 0 && (m.event != noEvent || m.client != i) {
			o.fail("STR-7: client %d was told %v of what is nothing to it", i, got)
		}
		responses := len(slices.DeleteFunc(got, func(w string) bool { return w != "|" }))
		if responses > 1 && (c.full || responses > 2) { // "*" and names have one each, if not in a list
			o.fail("STR-7: client %d was sent %d responses", i, responses)
		}
	}
}

// silent reports whether nothing was said of a name that is not there because the server of
// the state of the world does not say so: it leaves out what it has not (RES-7).
func (o *overlap) silent(m move, told []string) bool {
	return o.source.state && len(told) == 0 && !m.unsub && m.name == overlapName && !o.there()
}

// look compares what the clients hold and what the server is asked for with what the
// subscriptions mean.
func (o *overlap) look() {
	o.t.Helper()
	for i, c := range o.clients {
		c.collect(o.t, 1<<20)
		want := c.wants(func(content) bool { return true })
		if c.form.State && !c.full && len(want) == 0 {
			clear(c.holds) // nobody tells it what is gone (RES-3)
		}
		if !o.holdsRight(c.holds, want) {
			o.fail("client %d holds %v, want %v", i, c.holds, want)
		}
	}
	for _, m := range o.servers() {
		if err := m.store.Check(); err != nil {
			o.fail("%v", err)
		}
	}
	o.union()
}

// union holds what the server is asked for to what the clients want: each collection
// once, and the name unless a glob that is asked for brings it (SUB-10, SUB-12, GLOB-6).
func (o *overlap) union() {
	o.t.Helper()
	wanted := map[string]bool{}
	for _, c := range o.clients {
		maps.Copy(wanted, c.keys())
	}
	asked := map[string]int{}
	for _, m := range o.servers() {
		for _, st := range m.streams {
			if st == nil {
				continue
			}
			for key := range st.subs {
				asked[key]++
			}
			if _, star := st.subs[cache.Wildcard]; star && len(st.subs) > 1 {
				o.fail("SUB-12: one stream is asked for %v", st.subs)
			}
		}
	}
	for key, n := range asked {
		if n != 1 || !wanted[key] {
			o.fail("SUB-10: the server is asked for %q %d times, wanted: %t", key, n, wanted[key])
		}
	}
	for key := range wanted {
		brought := !keyer.IsGlob(key) && wanted[keyer.GlobOf(key)] && o.there()
		if asked[key] == 0 && !brought {
			o.fail("SUB-10: the server is not asked for %q: %v", key, asked)
		}
	}
}

// expected is what an incremental client is told because of a move: when the resource is
// news to it in every spelling that it has for it, when it subscribes what that means,
// and when it unsubscribes a name beside "*" what it cannot know (SUB-8). What it names
// it is served by name only.
func (o *overlap) expected(c *modelClient, i int, m move) []string {
	var names, globs []string
	for s := range c.subs {
		switch {
		case s == cache.Wildcard:
		case keyer.IsGlob(keyOf(s)):
			globs = append(globs, s)
		default:
			names = append(names, s)
		}
	}
	star := c.subs[cache.Wildcard] && o.star
	say := func(spelling string, there bool, version int) string {
		if there {
			return fmt.Sprintf("+%s@%s", spelling, o.shown(version))
		}
		return "-" + spelling
	}
	switch {
	case m.event == leaves && (len(names) > 0 || !star || !o.there()):
		return nil
	case m.event == leaves && len(globs) == 0:
		return []string{say(overlapName, false, 0)}
	case m.event == leaves && c.subs[overlapGlob]:
		return []string{say(overlapName, true, o.version)}
	case m.event == leaves:
		return []string{say(overlapName, false, 0), say(keyer.Respell(globs[0], overlapName), true, o.version)}
	case m.event != noEvent:
		version := o.version
		if m.event != goes {
			version++
		}
		var told []string
		for _, s := range names {
			told = append(told, say(s, m.event != goes, version))
		}
		if len(names) > 0 {
			return told
		}
		for _, g := range globs {
			told = append(told, say(keyer.Respell(g, overlapName), m.event != goes, version))
		}
		if star {
			told = append(told, say(overlapName, m.event != goes, version))
		}
		return told
	case m.client != i:
		return nil
	case m.unsub && !keyer.IsGlob(keyOf(m.name)) && m.name != cache.Wildcard:
		if len(names) > 1 || !c.subs[cache.Wildcard] {
			return nil
		}
		switch {
		case o.there() && len(globs) > 0:
			return []string{say(keyer.Respell(globs[0], overlapName), true, o.version)}
		case o.there() && star:
			return []string{say(overlapName, true, o.version)}
		}
		return []string{say(m.name, false, 0)}
	case m.unsub:
		return nil
	case m.name == cache.Wildcard:
		if o.there() && o.star && len(names) == 0 {
			return []string{say(overlapName, true, o.version)}
		}
		return nil
	case keyer.IsGlob(keyOf(m.name)):
		switch {
		case !o.there():
			return []string{"-" + m.name} // GLOB-4
		case len(names) > 0:
			return nil
		}
		return []string{say(keyer.Respell(m.name, overlapName), true, o.version)}
	default:
		return []string{say(m.name, o.there(), o.version)}
	}
}

// shown is what clients are shown of the resource's version.
func (o *overlap) shown(version int) string {
	return o.source.version(overlapName, content{version: fmt.Sprint(version)})
}

// overlapRun is one row: what overlaps, whose it is, and what happens when.
type overlapRun struct {
	names   []string
	clients []int // who subscribes to each
	order   []int // see orders
	before  bool  // the resource is there at the beginning
	event   event
	at      int // before which move it happens
}

func (r overlapRun) moves() []move {
	var all []move
	begun := map[int]bool{}
	for i, n := range r.order {
		if r.event != noEvent && i == r.at {
			all = append(all, move{event: r.event})
		}
		all = append(all, move{client: r.clients[n], name: r.names[n], unsub: begun[n]})
		begun[n] = true
	}
	return all
}

// runs gives every run of some names that each belong to one of two clients.
func overlapRuns(names []string, yield func(overlapRun)) {
	all := orders(len(names))
	for mask := range 1 << (len(names) - 1) { // the first is the first client's
		clients := make([]int, len(names))
		for i := range clients[1:] {
			clients[i+1] = mask >> i & 1
		}
		for _, order := range all {
			r := overlapRun{names: names, clients: clients, order: order}
			yield(r)
			r.before = true
			yield(r)
			for r.at = 1; r.at < len(order); r.at++ { // before the first and after the last it is nothing to anybody
				r.event, r.before = appears, false
				yield(r)
				r.before = true
				for _, r.event = range []event{changes, goes, leaves} {
					yield(r)
				}
			}
		}
	}
}

// lazily makes all moves up to one without looking, and the others too: what came in
// between is merged. With settling the server's answers come while nobody looks.
func (o *overlap) lazily(moves []move, until int, settling bool) {
	o.t.Helper()
	for _, part := range [][]move{moves[:until], moves[until:]} {
		for _, m := range part {
			o.carry(m)
			if settling {
				o.rest()
			}
		}
		o.rest()
		o.look()
		for i, c := range o.clients {
			o.twice(i, c.told)
		}
	}
}

// twice holds an incremental client's responses to saying nothing twice. A glob and "*"
// are two collections, and each says what is new in it.
func (o *overlap) twice(i int, told []string) {
	o.t.Helper()
	if o.form.State {
		return
	}
	said := map[string]int{}
	for _, w := range told {
		said[w]++
		if said[w] > 2 || (said[w] == 2 && !o.star) {
			o.fail("client %d was told %v: %q twice", i, told, w)
		}
	}
}

// overlapRow is who speaks how.
type overlapRow struct {
	name   string
	source modelSource
	full   bool // the type is a full-state one
	form   Form
	star   bool // "*" means the resource too
}

// share is one run of so many, beginning at one of them. Every order has more runs than
// that, so each share has all orders and owners; the shares together have every run.
type share struct{ nth, of int }

// everyRun is the share of who has no other to share with.
var everyRun = share{0, 1}

// forEach makes runs of some names, each in a store of its own.
func (row overlapRow) forEach(t *testing.T, names []string, part share, run func(o *overlap, moves []move)) {
	t.Helper()
	n := 0
	overlapRuns(names, func(r overlapRun) {
		n++
		if n%part.of != part.nth {
			return
		}
		o := newOverlap(t, row.source, row.full, row.star, row.form, 2)
		if r.before {
			o.happen(appears)
		}
		run(o, r.moves())
	})
}

var overlapRows = []overlapRow{
	{"incremental", modelSource{}, true, Form{}, true},
	{"incremental, in \"*\" is something else", modelSource{}, true, Form{}, false},
	{"incremental, a stream for each type", modelSource{perType: true}, false, Form{TTL: true}, true},
	{"lists", modelSource{}, true, Form{State: true, Wrapped: true}, true},
	{"bare lists, in \"*\" is something else", modelSource{}, true, Form{State: true}, false},
	{"changes", modelSource{}, false, Form{State: true}, true},
	{"incremental from lists", modelSource{state: true, full: true}, true, Form{}, true},
	{"lists from lists", modelSource{state: true, full: true}, true, Form{State: true}, true},
}

// TestOverlap takes a name, a glob and "*", and all of what else overlaps, three at a
// time, in every order of beginning and ending, by one client and by two, with what
// becomes of the resource before every one of these steps. The first form of speaking
// makes every run; the others share them out, and each makes some in every order, as the
// first does with what is spelled in several ways.
func TestOverlap_SUB5_SUB8_SUB9_SUB10_SUB12_GLOB4_GLOB5_GLOB6_NAME3_NAME4(t *testing.T) {
	t.Parallel()
	three := []string{overlapName, overlapGlob2, cache.Wildcard}
	shares := len(overlapRows) - 1
	stepwise := func(o *overlap, moves []move) {
		for _, m := range moves {
			o.step(m)
		}
	}
	for i, row := range overlapRows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			if i > 0 {
				row.forEach(t, three, share{i - 1, shares}, stepwise)
				return
			}
			row.forEach(t, three, everyRun, stepwise)
			for _, spelled := range [][]string{
				{overlapName2, overlapName, overlapGlob2}, {overlapName2, overlapGlob, overlapGlob2},
				{overlapName2, overlapGlob, cache.Wildcard}, {overlapGlob, overlapGlob2, cache.Wildcard},
			} {
				row.forEach(t, spelled, share{0, 3}, stepwise)
			}
		})
	}
	for _, row := range []overlapRow{overlapRows[0], overlapRows[3]} {
		t.Run(row.name+", looked at once", func(t *testing.T) {
			t.Parallel()
			row.forEach(t, three, share{0, shares}, func(o *overlap, moves []move) {
				o.lazily(moves, len(moves)/2, true)
			})
		})
	}
}

// TestModelOverlap does so with all five at once, by up to three clients, in sequences
// of any length, several in one request, with collecting, the server's answers, and
// evictions in between or not. "*" is in the same store or in another one, which the control
// plane fills at another pace.
func TestModelOverlap_SUB5_SUB8_SUB9_SUB10_SUB12_GLOB5_GLOB6_LOC3(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		row := rapid.SampledFrom(overlapRows).Draw(t, "row")
		row.star = rapid.Bool().Draw(t, "star")
		o := newOverlap(t, row.source, row.full, row.star, row.form, rapid.IntRange(1, 3).Draw(t, "clients"))
		if rapid.Bool().Draw(t, "apart") {
			o.apart(row.full)
		}
		server := func() *modelServer { return rapid.SampledFrom(o.servers()).Draw(t, "server") }
		some := func(label string) []string {
			return rapid.SliceOfNDistinct(rapid.SampledFrom(overlapping), 0, 3, rapid.ID[string]).Draw(t, label)
		}
		client := func() *modelClient { return rapid.SampledFrom(o.clients).Draw(t, "client") }
		t.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) {
				sub := some("subscribe")
				unsub := slices.DeleteFunc(some("unsubscribe"), func(n string) bool { return slices.Contains(sub, n) })
				c := client()
				if slices.ContainsFunc(unsub, func(n string) bool { return c.subs[n] && keyer.IsGlob(keyOf(n)) || n == cache.Wildcard }) {
					// Between "*" and a glob nothing is handed over: what a client has from the
					// one and the other never mentions is the client's own to drop. It has to wait
					// for the other, therefore, before it lets go of the one.
					c.update(sub, nil, nil)
					o.rest()
					o.look()
					sub = nil
				}
				c.update(sub, unsub, nil)
			},
			"event": func(t *rapid.T) {
				if e := rapid.SampledFrom([]event{changes, goes, leaves}).Draw(t, "event"); e == changes || o.there() {
					o.happen(e)
				}
			},
			"star":    func(*rapid.T) { o.star = row.star },
			"pump":    func(t *rapid.T) { server().pump(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"deliver": func(t *rapid.T) { server().deliver(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"lose":    func(t *rapid.T) { server().lose(rapid.IntRange(0, 1).Draw(t, "stream")) },
			"collect": func(t *rapid.T) {
				client().collect(t, rapid.SampledFrom([]int{1, 1 << 20}).Draw(t, "size"))
			},
			"expire": func(*rapid.T) { o.cache.Expire(o.now.Add(2 * time.Hour)) },
			"rest": func(*rapid.T) {
				o.rest()
				o.look()
			},
		})
		o.rest()
		o.look()
	})
}
