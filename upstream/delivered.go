package upstream

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxTypes bounds the types that are remembered: clients choose them.
const maxTypes = 256

// secretSuffix marks a type that is asked for only where nothing else was delivered.
const secretSuffix = ".Secret"

// delivered has the resources that a control plane delivered to a session and has not removed: a query for one
// of them must be answered (SUR-2). It belongs to the session's owner.
type delivered struct {
	state bool // the state of the world
	types map[deliveredKey]*deliveredType
	turns int // queries so far
}

type deliveredKey struct {
	stream  wire.StreamID
	typeURL string
}

// deliveredType is delivered for one type on one stream. An incremental server can be
// asked for each resource. One of the state of the world may answer nothing to names that it
// was not asked for together.
type deliveredType struct {
	samples map[string]content // incremental: some resources
	names   []string           // state of the world: of the last request, sorted; nil stands for everything
	some    bool               // state of the world: the last response had a resource

	bytes   int  // of the last response
	turn    int  // incremental: when the type was asked for last
	ignored bool // no server answered when the type was asked for last
}

func (d *delivered) of(stream wire.StreamID, typeURL string) *deliveredType {
	key := deliveredKey{stream, typeURL}
	t := d.types[key]
	if t == nil {
		if d.types == nil || len(d.types) >= maxTypes {
			d.types = make(map[deliveredKey]*deliveredType)
		}
		t = &deliveredType{samples: make(map[string]content)}
		d.types[key] = t
	}
	return t
}

// restarted takes the subscriptions that a stream begins with. Restored content counts as delivered: it was, to an earlier process or to
// a peer. Without it a relay could ask a server nothing that is mute from the start, and would stay with it.
func (d *delivered) restarted(stream wire.StreamID, subs []wire.Subscription) {
	maps.DeleteFunc(d.types, func(key deliveredKey, _ *deliveredType) bool {
		return key.stream == stream && !slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return sub.TypeURL == key.typeURL })
	})
	for _, sub := range subs {
		d.restored(stream, sub)
	}
}

// restored takes the restored content that a subscription presents, unless the server has delivered something of the type.
func (d *delivered) restored(stream wire.StreamID, sub wire.Subscription) {
	if t := d.types[deliveredKey{stream, sub.TypeURL}]; t != nil && t.any() {
		return
	}
	if d.state {
		if sub.Held {
			d.of(stream, sub.TypeURL).some = true
		}
		return
	}
	for name, version := range sub.Versions {
		if version != wire.Asked {
			continue
		}
		t := d.of(stream, sub.TypeURL)
		if len(t.samples) == someNames {
			return
		}
		t.samples[strings.Clone(name)] = content{}
	}
}

// has reports whether an incremental subscription asks for something that was delivered.
func (d *delivered) has(stream wire.StreamID, sub wire.Subscription) bool {
	t := d.types[deliveredKey{stream, sub.TypeURL}]
	return t != nil && slices.ContainsFunc(sub.Subscribe, func(name string) bool {
		_, known := t.samples[name]
		return known || collection(name) && len(t.samples) > 0
	})
}

// unsubscribed takes names that are not wanted any more.
func (d *delivered) unsubscribed(stream wire.StreamID, sub wire.Subscription) {
	if t := d.types[deliveredKey{stream, sub.TypeURL}]; t != nil {
		t.forget(sub.Unsubscribe)
	}
}

// forget forgets names, or everything with a collection.
func (t *deliveredType) forget(names []string) {
	for _, name := range names {
		if collection(name) {
			clear(t.samples)
			return
		}
		delete(t.samples, name)
	}
}

// listed notes that a request of the state of the world was written with these names.
func (d *delivered) listed(stream wire.StreamID, typeURL string, names []string) {
	d.of(stream, typeURL).names = names
}

// take takes a response that was accepted. One that has only heartbeats answers nothing.
func (d *delivered) take(stream wire.StreamID, r *wire.Response, bytes int) {
	if r.HeartbeatsOnly() {
		return
	}
	t := d.of(stream, r.TypeURL)
	t.bytes, t.ignored = bytes, false
	if d.state {
		t.some = len(r.Resources) > 0
		return
	}
	t.forget(r.Removed)
	for _, res := range r.Resources {
		t.sample(res)
	}
}

// sample remembers a resource, if there is room. A resource with a ttl or with aliases, and one that is
// not to be cached, is no sample: it may go without a word of the server.
func (t *deliveredType) sample(r *wire.Resource) {
	if !r.HasPayload() {
		return
	}
	if r.HasTTL || r.DoNotCache || len(r.Aliases()) > 0 {
		delete(t.samples, r.Name)
		return
	}
	if _, known := t.samples[r.Name]; known || len(t.samples) < someNames {
		t.samples[strings.Clone(r.Name)] = content{strings.Clone(r.Version), contentOf(r).sum}
	}
}

// any reports whether something can be asked for.
func (t *deliveredType) any() bool { return t.some || len(t.samples) > 0 }

// query asks for something of one type, nil if nothing was delivered. Types that no server answered for come last, and
// secrets before them. An incremental server is asked for each type in turn, one of the state of the world for the
// shortest list.
func (d *delivered) query() *query {
	var best deliveredKey
	for key, t := range d.types {
		if t.any() && (best.typeURL == "" || d.compare(key, best) < 0) {
			best = key
		}
	}
	t := d.types[best]
	if t == nil {
		return nil
	}
	q := &query{stream: best.stream, typeURL: best.typeURL, names: t.names, sure: true}
	if !d.state {
		d.turns++
		t.turn = d.turns
		q.names, q.held = slices.Sorted(maps.Keys(t.samples)), maps.Clone(t.samples)
	}
	return q
}

// compare is negative if a is asked for rather than b.
func (d *delivered) compare(a, b deliveredKey) int {
	x, y := d.types[a], d.types[b]
	return cmp.Or(
		first(!x.ignored, !y.ignored), first(!isSecret(a.typeURL), !isSecret(b.typeURL)),
		cmp.Compare(x.turn, y.turn), cmp.Compare(x.bytes, y.bytes), cmp.Compare(a.order(), b.order()),
	)
}

// first is negative if only the first of two holds, and positive if only the second does.
func first(x, y bool) int {
	switch {
	case x == y:
		return 0
	case x:
		return -1
	}
	return 1
}

// unanswered takes a query that no server answered. They may have lost the resource, and cannot say so
// (RES-7): so another resource comes first. other is set if there is another one.
func (d *delivered) unanswered(q *query) (other bool) {
	if t := d.types[deliveredKey{q.stream, q.typeURL}]; t != nil {
		t.ignored = true
	}
	for _, t := range d.types {
		other = other || t.any() && !t.ignored
	}
	return other
}

// ignored reports whether no server answered for the type of a query when it was asked for last.
func (d *delivered) ignored(q *query) bool {
	t := d.types[deliveredKey{q.stream, q.typeURL}]
	return t != nil && t.ignored
}

// has reports whether a sorted list has a name.
func has(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

func isSecret(typeURL string) bool { return strings.HasSuffix(typeURL, secretSuffix) }

func (k deliveredKey) order() string { return k.typeURL + "\x00" + k.stream.String() }
