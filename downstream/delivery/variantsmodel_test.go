package delivery

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

// variantWorld is a server with variants, a store and clients that use parameters, as
// relays do: each knows variants by their constraints and matches them by itself.
type variantWorld struct {
	*rapid.T

	b       *bed
	truth   map[string]map[string]string // by name and constraints (as the test writes them): the version
	sent    map[string]bool              // "name[constraints]" that the store was sent on this stream
	subs    map[string]bool              // locators that it subscribes to
	version int
	clients []*variantClient
}

// variantClient is what a client holds: by name and canonical constraints the version.
type variantClient struct {
	p     *peer
	wants map[string]bool
	holds map[string]map[string]heldVariant
	aware bool // it has used parameters; else a resource replaces what it had under the name
}

type heldVariant struct {
	constraints *keyer.Constraints
	version     string
}

var (
	modelConstraints = []string{"", "e=p", "e=t", "!e", "!e=p", "e=p,v=1", "e=p,!v=1", "v=1", "v"}
	modelLocators    = []string{"x", "x{e=p}", "x{e=t}", "x{e=p v=1}", "x{e=p v=2}", "x{v=1}", "y", "y{e=p}", "y{e=q v=1}"}
)

func parseConstraints(text string) *keyer.Constraints {
	if text == "" {
		return nil
	}
	c, err := keyer.ParseConstraints([]byte(encode(constraintsOf(text))))
	if err != nil {
		panic(err)
	}
	return c
}

// of writes a variant as the helpers read it.
func variantText(name, constraints string) string {
	if constraints == "" {
		return name
	}
	return name + "[" + constraints + "]"
}

// wanted reports whether some subscription is for a variant.
func (w *variantWorld) wanted(name, constraints string) bool {
	c := parseConstraints(constraints)
	for word := range w.subs {
		if wire.LocatedName(word) == name && c.Match(wire.Parameters(word)) {
			return true
		}
	}
	return false
}

// push sends what the store lacks, and what is gone, in one response.
func (w *variantWorld) push(changed map[string]bool, extra ...string) {
	var words []string
	for text := range w.sent {
		name, constraints, _ := strings.Cut(strings.TrimSuffix(text, "]"), "[")
		if _, there := w.truth[name][constraints]; !there {
			words = append(words, "-"+text)
			delete(w.sent, text)
		} else if !w.wanted(name, constraints) {
			delete(w.sent, text)
		}
	}
	for name, variants := range w.truth {
		for constraints, version := range variants {
			text := variantText(name, constraints)
			if w.wanted(name, constraints) && (!w.sent[text] || changed[text]) {
				words = append(words, "+"+text+"@"+version)
				w.sent[text] = true
			}
		}
	}
	for _, word := range extra {
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	slices.Sort(words)
	words = rapid.Permutation(words).Draw(w.T, "order")
	if len(words) > 0 {
		if err := w.b.store.Session().Apply(streamOf(0), variantResponse(cds, words...), time.Now()); err != nil {
			w.Fatalf("%q: %v", words, err)
		}
		w.check()
	}
}

func (w *variantWorld) check() {
	if err := w.b.store.Check(); err != nil {
		w.Fatalf("Check: %v", err)
	}
}

// take carries out what the store subscribes to, and answers it.
func (w *variantWorld) take(subs []wire.Subscription) {
	for _, sub := range subs {
		for _, word := range sub.Unsubscribe {
			delete(w.subs, word)
		}
		var extra []string
		again := make(map[string]bool)
		for _, word := range sub.Subscribe {
			w.subs[word] = true
			found := false
			for constraints := range w.truth[wire.LocatedName(word)] {
				if parseConstraints(constraints).Match(wire.Parameters(word)) {
					found = true
					again[variantText(wire.LocatedName(word), constraints)] = true
				}
			}
			if gone := "-" + wire.LocatedName(word); !found && !slices.Contains(extra, gone) {
				extra = append(extra, gone)
			}
		}
		w.push(again, extra...)
	}
}

func (w *variantWorld) demand() {
	if subs, ok := w.b.store.Session().TakeDemand(streamOf(0)); ok {
		w.take(subs)
	}
}

func (w *variantWorld) reconnect() {
	w.b.store.Session().Lost(streamOf(0))
	clear(w.sent)
	clear(w.subs)
	w.take(w.b.store.Session().Restart(streamOf(0), 0))
}

// change replaces the variants of a name.
func (w *variantWorld) change() {
	name := rapid.SampledFrom([]string{"x", "y"}).Draw(w.T, "name")
	if w.truth[name] == nil {
		w.truth[name] = make(map[string]string)
	}
	changed := make(map[string]bool)
	for range rapid.IntRange(1, 4).Draw(w.T, "changes") {
		constraints := rapid.SampledFrom(modelConstraints).Draw(w.T, "constraints")
		if rapid.IntRange(0, 2).Draw(w.T, "what") == 0 {
			delete(w.truth[name], constraints)
			continue
		}
		if constraints != "" && parseConstraints(constraints).Match(nil) {
			delete(w.truth[name], "") // which it replaces, for who has no parameters
		}
		if constraints == "" {
			maps.DeleteFunc(w.truth[name], func(other, _ string) bool { return parseConstraints(other).Match(nil) })
		}
		w.version++
		w.truth[name][constraints] = fmt.Sprint(w.version)
		changed[variantText(name, constraints)] = true
	}
	w.push(changed)
}

// best is the variant for a word: the one with the least constraints.
func bestOf(variants map[string]heldVariant, word string) string {
	for _, key := range slices.Sorted(maps.Keys(variants)) {
		if variants[key].constraints.Match(wire.Parameters(word)) {
			return key + "@" + variants[key].version
		}
	}
	return ""
}

// collect has a client take its responses, each at once, as a relay does.
func (w *variantWorld) collect(c *variantClient) {
	batches, _, err := collectFrom(c.p.c, func(string) bool { return false }, 1<<20, 8)
	if err != nil {
		w.Fatal(err)
	}
	w.check()
	for _, batch := range batches {
		r := new(discovery.DeltaDiscoveryResponse)
		if err := proto.Unmarshal(batch.Body.Finish(batch.TypeURL, "", "").Bytes(), r); err != nil {
			w.Fatal(err)
		}
		// What is served from the cache to a new subscription may be removed before the
		// server was asked what else there is for it.
		before := c.view()
		c.apply(w, r)
		for word := range c.wants {
			if w.subs[word] && before[word] != "" && c.view()[word] == "" && bestOf(w.variantsOf(wire.LocatedName(word)), word) != "" {
				w.Fatalf("%q is gone for a moment with %v", word, r)
			}
		}
	}
}

func (c *variantClient) view() map[string]string {
	view := make(map[string]string)
	for word := range c.wants {
		view[word] = bestOf(c.holds[wire.LocatedName(word)], word)
	}
	return view
}

func (c *variantClient) apply(w *variantWorld, r *discovery.DeltaDiscoveryResponse) {
	seen := make(map[string]bool)
	once := func(what string) {
		if seen[what] {
			w.Fatalf("RES-4: %q twice in %v", what, r)
		}
		seen[what] = true
	}
	parse := func(n *discovery.ResourceName) *keyer.Constraints {
		p, err := keyer.ParseConstraints([]byte(encode(n.GetDynamicParameterConstraints())))
		if err != nil {
			w.Fatal(err)
		}
		return p
	}
	for _, name := range r.GetRemovedResources() {
		once(name)
		delete(c.holds[name], "")
	}
	for _, n := range r.GetRemovedResourceNames() {
		once(n.GetName() + "[" + parse(n).Key())
		delete(c.holds[n.GetName()], parse(n).Key())
	}
	for _, res := range r.GetResources() {
		name, constraints := res.GetName(), parse(res.GetResourceName())
		if res.GetResourceName() != nil {
			name = res.GetResourceName().GetName()
		}
		once(strings.TrimSuffix(name+"["+constraints.Key(), "["))
		if c.holds[name] == nil || !c.aware {
			c.holds[name] = make(map[string]heldVariant)
		}
		c.holds[name][constraints.Key()] = heldVariant{constraints, res.GetVersion()}
	}
}

// variantsOf is the truth, by canonical constraints.
func (w *variantWorld) variantsOf(name string) map[string]heldVariant {
	all := make(map[string]heldVariant)
	for text, version := range w.truth[name] {
		c := parseConstraints(text)
		all[c.Key()] = heldVariant{c, version}
	}
	return all
}

// converge brings everything level and compares.
func (w *variantWorld) converge() {
	w.demand()
	for _, c := range w.clients {
		w.collect(c)
		for word := range c.wants {
			got := c.view()[word]
			if want := bestOf(w.variantsOf(wire.LocatedName(word)), word); got != want {
				w.Fatalf("%q: got %q, want %q; it holds %v, the server has %v", word, got, want, c.holds, w.truth)
			}
		}
	}
}

// change of a client's subscriptions. What it has for a subscription that ended it
// forgets, unless another one is for it.
func (w *variantWorld) subscribe(c *variantClient) {
	word := locator(rapid.SampledFrom(modelLocators).Draw(w.T, "locator"))
	n := cache.Name{Spelling: word, Key: word}
	if !c.wants[word] {
		c.wants[word] = true
		c.aware = c.aware || wire.IsLocator(word)
		c.p.c.Update(&Change{TypeURL: cds, Subscribe: []cache.Name{n}})
		w.check()
		return
	}
	delete(c.wants, word)
	c.p.c.Update(&Change{TypeURL: cds, Unsubscribe: []cache.Name{n}})
	w.check()
	for name, variants := range c.holds {
		maps.DeleteFunc(variants, func(_ string, h heldVariant) bool {
			for word := range c.wants {
				if wire.LocatedName(word) == name && h.constraints.Match(wire.Parameters(word)) {
					return false
				}
			}
			return true
		})
	}
}

func TestDYN1ModelVariants(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &variantWorld{
			T: rt, b: newBed(t, cache.Limits{}), truth: make(map[string]map[string]string),
			sent: make(map[string]bool), subs: make(map[string]bool),
		}
		w.b.cache.Now = time.Now
		for range 2 {
			w.clients = append(w.clients, &variantClient{
				p: w.b.join(), wants: make(map[string]bool), holds: make(map[string]map[string]heldVariant),
			})
		}
		w.reconnect()
		rt.Repeat(map[string]func(*rapid.T){
			"change": func(*rapid.T) { w.change() },
			"subscribe": func(t *rapid.T) {
				w.subscribe(rapid.SampledFrom(w.clients).Draw(t, "client"))
			},
			"demand":    func(*rapid.T) { w.demand() },
			"collect":   func(t *rapid.T) { w.collect(rapid.SampledFrom(w.clients).Draw(t, "client")) },
			"evict":     func(*rapid.T) { w.b.letGo() },
			"reconnect": func(*rapid.T) { w.reconnect() },
			"converge":  func(*rapid.T) { w.converge() },
		})
		w.converge()
	})
}
