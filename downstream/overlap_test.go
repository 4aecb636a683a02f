package downstream

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// What a client names, follows by a glob and is brought by "*" comes from two stores: xdstp names
// and globs from that of their authority, "*" from that of its scope. Both are filled by one
// control plane, each at its own pace; what "*" means is that control plane's choice for the client, and changes. Or
// a rule puts an opaque name into another scope than "*", where it stands for something
// else. In every order in which one client or two can begin and end these, while resources change and
// go, each client holds after every step what its subscriptions mean: what it names by the
// name (LOC-3, AGG-1), and else what a glob or "*" has (GLOB-5, SUB-8).
func TestOverlap_SUB8_SUB12_GLOB5_LOC3_AGG1_RES4(t *testing.T) {
	for _, form := range []struct {
		name    string
		typeURL string
		open    func(h *harness) overlapClient
	}{
		{"incremental", clusterType, func(h *harness) overlapClient { return &deltaOverlap{client: h.client()} }},
		{"lists", clusterType, func(h *harness) overlapClient { return &stateOverlap{stateClient: h.state(), full: true} }},
		{"changes", endpointType, func(h *harness) overlapClient { return &stateOverlap{stateClient: h.state()} }},
	} {
		for clients := range 1 << 2 {
			t.Run(fmt.Sprintf("%s, whose: %02b", form.name, clients), func(t *testing.T) {
				bubble(t, func(h *harness) {
					o := newOverlap(h, form.typeURL)
					for _, order := range overlapOrders(3) {
						o.run(form.open, order, []int{0, clients & 1, clients >> 1})
					}
				})
			})
		}
		for clients := range 1 << 1 {
			t.Run(fmt.Sprintf("%s, by a rule, whose: %01b", form.name, clients), func(t *testing.T) {
				bubble(t, func(h *harness) {
					o := newRuleOverlap(h, form.typeURL)
					for range 5 { // each order at each of the events
						for _, order := range overlapOrders(2) {
							o.run(form.open, order, []int{0, clients})
						}
						o.event()
					}
				})
			})
		}
	}
}

// overlapClient is a client that keeps what it was sent.
type overlapClient interface {
	// change says what it subscribes to from now on, of which one name is new or gone.
	// starred tells what no client can know: that "*" means the resource.
	change(typeURL, name string, names []string, starred bool)
	// holding is what it holds now, with the versions.
	holding() map[string]string
	leave()
}

type overlap struct {
	*harness

	typeURL     string
	name        string
	subscribing []string
	named       *plane // that has what the name stands for; h.opaque has what "*" means
	apart       bool   // the two say different things of the name
	steps       int
	log         []string
}

func newOverlap(h *harness, typeURL string) *overlap {
	dir := "xdstp://a/" + strings.TrimPrefix(typeURL, "type.googleapis.com/") + "/d/"
	o := &overlap{harness: h, typeURL: typeURL, name: dir + "x?p=1&q=2", named: h.a}
	o.subscribing = []string{o.name, dir + "*?p=1&q=2", "*"}
	h.opaque.starred = map[string]bool{o.name: true}
	return o
}

func newRuleOverlap(h *harness, typeURL string) *overlap {
	h.router.byName = func(_, name string) (*cache.Store, error) {
		if name == "x" {
			return h.other.store, nil
		}
		return h.opaque.store, nil
	}
	return &overlap{harness: h, typeURL: typeURL, name: "x", subscribing: []string{"x", "*"}, named: h.other, apart: true}
}

// run makes one client or two begin and end everything in an order.
func (o *overlap) run(open func(*harness) overlapClient, order, whose []int) {
	o.Helper()
	o.log = nil
	clients := []overlapClient{open(o.harness), open(o.harness)}
	subs := []map[string]bool{{}, {}}
	for _, i := range order {
		o.event()
		for _, c := range clients {
			c.holding()
		}
		c, name := whose[i], o.subscribing[i]
		if subs[c][name] {
			delete(subs[c], name)
			o.log = append(o.log, fmt.Sprintf("%d -%s", c, name))
		} else {
			subs[c][name] = true
			o.log = append(o.log, fmt.Sprintf("%d +%s", c, name))
		}
		clients[c].change(o.typeURL, name, slices.Sorted(maps.Keys(subs[c])), o.version(o.opaque) != "")
		o.rest()
		for i, c := range clients {
			o.look(i, c, subs[i])
		}
	}
	for _, c := range clients {
		c.leave()
	}
	o.rest()
}

// rest lets everything come to rest.
func (o *overlap) rest() {
	o.quiet()
	for _, p := range []*plane{o.opaque, o.named} {
		p.settle()
	}
	o.quiet()
}

// event changes what becomes of the resource: in turn, with a period that no order has.
func (o *overlap) event() {
	o.steps++
	o.log = append(o.log, fmt.Sprintf("event %d", o.steps))
	planes := []*plane{o.opaque, o.named}
	if o.apart {
		for i, p := range planes {
			switch (o.steps / (i + 1)) % 5 {
			case 0, 2:
				p.set(o.typeURL, fmt.Sprintf("%d.%d", i, o.steps), o.name)
			case 3:
				p.unset(o.typeURL, o.name)
			}
		}
		o.rest()
		return
	}
	if o.steps%2 == 0 { // the one store hears of it first, or the other one
		slices.Reverse(planes)
	}
	switch o.steps % 7 {
	case 0, 4: // it changes
		for _, p := range planes {
			p.set(o.typeURL, fmt.Sprint(o.steps), o.name)
		}
	case 2: // "*" does not mean it any more
		o.opaque.unset(o.typeURL, o.name)
	case 3: // and means it again
		if v := o.version(o.named); v != "" {
			o.opaque.set(o.typeURL, v, o.name)
		}
	case 5: // it goes
		for _, p := range planes {
			p.unset(o.typeURL, o.name)
		}
	}
	o.rest()
}

// version is that of the resource in a plane; "" if it is not there.
func (o *overlap) version(p *plane) string { return p.exists[o.typeURL][o.name].GetVersion() }

func (o *overlap) look(i int, c overlapClient, subs map[string]bool) {
	o.Helper()
	want := ""
	switch {
	case subs[o.name], subs[keyer.GlobOf(o.name)]:
		want = o.version(o.named)
	case subs["*"]:
		want = o.version(o.opaque)
	}
	got := c.holding()
	if want != got[o.name] && !o.silent(c, subs, got[o.name]) {
		o.Fatalf("%v: client %d of %v holds %q, want %q", o.log, i, slices.Collect(maps.Keys(subs)), got[o.name], want)
	}
}

// silent reports whether nobody has a word for what a client holds and should not: that
// it is gone (RES-3).
func (o *overlap) silent(c overlapClient, subs map[string]bool, holds string) bool {
	s, ok := c.(*stateOverlap)
	gone := o.version(o.named) == "" || o.version(o.opaque) == ""
	return ok && !s.full && holds != "" && gone && len(subs) > 0
}

// deltaOverlap is one of the incremental form.
type deltaOverlap struct {
	*client
	held map[string]string
	subs []string
}

func (c *deltaOverlap) change(typeURL, name string, names []string, starred bool) {
	c.subs = names
	if slices.Contains(names, name) {
		c.subscribe(typeURL, name)
	} else {
		c.unsubscribe(typeURL, name)
	}
	c.held = keep(c.held, names, starred)
}

func (c *deltaOverlap) holding() map[string]string {
	if c.held == nil {
		c.held = map[string]string{}
	}
	for _, r := range c.take() {
		for _, x := range r.Resources {
			c.held[x.Name] = x.Version
		}
		for _, name := range r.RemovedResources {
			delete(c.held, name)
		}
	}
	return c.held
}

func (c *deltaOverlap) leave() { c.cancel() }

// keep drops what no subscription means. What a glob brought and "*" does not mean is
// the client's own to drop: nobody has a word for it.
func keep(held map[string]string, subs []string, starred bool) map[string]string {
	maps.DeleteFunc(held, func(name, _ string) bool {
		return !slices.Contains(subs, name) && (!starred || !slices.Contains(subs, "*")) && !slices.Contains(subs, keyer.GlobOf(name))
	})
	return held
}

// stateOverlap is one of the state-of-the-world form.
type stateOverlap struct {
	*stateClient
	full bool
	held map[string]string
}

func (c *stateOverlap) change(typeURL, _ string, names []string, starred bool) {
	c.asks(typeURL, names...)
	c.held = keep(c.held, names, starred)
}

func (c *stateOverlap) holding() map[string]string {
	if c.held == nil {
		c.held = map[string]string{}
	}
	for _, r := range c.take() {
		if c.full {
			clear(c.held)
		}
		for _, x := range r.Resources {
			at := bytes.LastIndexByte(x.Value, '@')
			name, version := string(x.Value[:at]), string(x.Value[at+1:])
			if c.full && c.held[name] != "" {
				c.h.Fatalf("RES-4: %q twice in one list", name)
			}
			c.held[name] = version
		}
	}
	return c.held
}

func (c *stateOverlap) leave() { c.cancel() }

// overlapOrders gives every order in which some things can begin and end.
func overlapOrders(n int) [][]int {
	var all [][]int
	count := make([]int, n)
	var extend func(order []int)
	extend = func(order []int) {
		if len(order) == 2*n {
			all = append(all, slices.Clone(order))
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
