package upstream

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// maxSamples is how many resources of a type are remembered.
	maxSamples = 64
	// trusted is how old a list of names must be for the next response to be its answer.
	trusted = time.Second
	// maxTypes bounds the types that are remembered: clients choose them.
	maxTypes = 256
)

// secretSuffix marks what is asked for only where nothing else is held.
const secretSuffix = ".Secret"

// delivered is what a control plane delivered to a session and has not taken back: of that it
// can be asked what it must answer (SUR-2). It belongs to the session's owner.
type delivered struct {
	state     bool            // the state of the world
	fullState map[string]bool // types of which every response is the whole list
	types     map[deliveredKey]*deliveredType
	last      deliveredKey // asked for last
}

type deliveredKey struct {
	stream  wire.StreamID
	typeURL string
}

// deliveredType is what is known of one type on one stream. An incremental server can be
// asked for each resource. One of the state of the world may answer nothing to names that it
// was not asked for together, so that only whole requests count which it answered.
type deliveredType struct {
	samples map[string]content // incremental: some resources
	whole   bool               // incremental: everything is wanted

	// State of the world. Lists of names are sorted, nil stands for everything.
	names    []string  // of the last request
	changed  time.Time // when it was written, if the one before had others; zero: that cannot be answered any more
	added    []string  // names that the one before did not have
	answered bool      // there was an answer, to a request with the names answer, and there is still something
	answer   []string
	count    int  // resources of the last answer
	ignored  bool // to be asked for was not answered since

	bytes int // of the last response
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

// restarted takes what a stream begins with.
func (d *delivered) restarted(stream wire.StreamID, subs []wire.Subscription) {
	maps.DeleteFunc(d.types, func(key deliveredKey, _ *deliveredType) bool {
		return key.stream == stream && !slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return sub.TypeURL == key.typeURL })
	})
	if d.state {
		return
	}
	for _, sub := range subs {
		t := d.of(stream, sub.TypeURL)
		t.whole = slices.ContainsFunc(sub.Subscribe, collection)
		if sub.Versions == nil {
			continue // left out for their size
		}
		maps.DeleteFunc(t.samples, func(name string, c content) bool { return sub.Versions[name] != c.version })
		for name, version := range sub.Versions {
			if len(t.samples) >= maxSamples {
				break
			}
			if _, known := t.samples[name]; !known {
				t.samples[name] = content{version: version}
			}
		}
	}
}

// due reports whether the server must answer an incremental subscription: it delivered
// something of it, and no version is presented.
func (d *delivered) due(stream wire.StreamID, sub wire.Subscription) bool {
	t := d.types[deliveredKey{stream, sub.TypeURL}]
	if t == nil || len(sub.Versions) > 0 {
		return false
	}
	return slices.ContainsFunc(sub.Subscribe, func(name string) bool {
		_, held := t.samples[name]
		return held || collection(name) && len(t.samples) > 0
	})
}

// unsubscribed takes names that are not wanted any more.
func (d *delivered) unsubscribed(stream wire.StreamID, sub wire.Subscription) {
	t := d.types[deliveredKey{stream, sub.TypeURL}]
	if t == nil {
		return
	}
	t.whole = t.whole || slices.ContainsFunc(sub.Subscribe, collection)
	for _, name := range sub.Unsubscribe {
		if collection(name) {
			clear(t.samples)
			t.whole = false
			return
		}
		delete(t.samples, name)
	}
}

// received takes an incremental response.
func (d *delivered) received(stream wire.StreamID, r *wire.Response, bytes int) {
	t := d.of(stream, r.TypeURL)
	t.bytes = bytes
	for _, name := range r.Removed {
		if collection(name) {
			clear(t.samples)
			continue
		}
		delete(t.samples, name)
	}
	for _, res := range r.Resources {
		t.sample(res)
	}
}

// sample remembers a resource, if there is room, or instead of another one. What may go
// without the server's word, or has several contents, is none.
func (t *deliveredType) sample(r *wire.Resource) {
	_, known := t.samples[r.Name]
	if !r.HasPayload() || r.HasTTL || r.DoNotCache || len(r.Aliases()) > 0 {
		if r.HasPayload() {
			delete(t.samples, r.Name)
		}
		return
	}
	if !known && len(t.samples) >= maxSamples {
		if anyOf(maxSamples) > 0 {
			return
		}
		for name := range t.samples {
			delete(t.samples, name)
			break
		}
	}
	t.samples[strings.Clone(r.Name)] = content{strings.Clone(r.Version), contentOf(r).sum}
}

// listed notes that a request of the state of the world was written with these names. first
// is set if it is the first of its type on the stream.
func (d *delivered) listed(stream wire.StreamID, typeURL string, names []string, first bool, at time.Time) {
	t := d.of(stream, typeURL)
	switch {
	case first:
		t.changed, t.added = time.Time{}, nil
	case !slices.Equal(t.names, names):
		was := t.names
		t.changed = at
		t.added = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return has(was, name) })
	}
	t.names = names
}

// receivedState takes a response of the state of the world that was accepted. Soon after the
// names have changed it may be the answer to the request before, unless it has what only the
// last one asks for.
//
// A server that has nothing left of a type may be silent to a request without a version:
// go-control-plane's snapshots have none for such a type, so nothing is news. Clients may go on
// asking for what is gone, for as long as its loss is held back (SUR-3).
func (d *delivered) receivedState(stream wire.StreamID, r *wire.Response, bytes int, at time.Time) {
	if r.HeartbeatsOnly() {
		return // it answers nothing
	}
	t := d.of(stream, r.TypeURL)
	if d.fullState[r.TypeURL] && t.shrinks(len(r.Resources)) {
		d.loseNamed()
	}
	t.bytes = bytes
	isNew := func(res *wire.Resource) bool { return has(t.added, res.Name) }
	switch {
	case len(r.Resources) == 0:
		t.answered = false
	case at.Sub(t.changed) >= trusted || slices.ContainsFunc(r.Resources, isNew):
		t.answer, t.answered, t.count, t.ignored = t.names, true, len(r.Resources), false
	}
}

// shrinks reports whether a whole list of so many resources has fewer than the last one for the
// same names.
func (t *deliveredType) shrinks(count int) bool {
	return t.answered && count < t.count && slices.Equal(t.names, t.answer)
}

// loseNamed forgets the answers of the types of which a response need not have everything. What
// a list has lost may have named them: the server has no word for their loss (RES-8), so that
// only its next answer shows that there still are some.
func (d *delivered) loseNamed() {
	for key, t := range d.types {
		if !d.fullState[key.typeURL] {
			t.answered = false
		}
	}
}

// take takes a response that was accepted.
func (d *delivered) take(stream wire.StreamID, r *wire.Received, at time.Time) {
	if r.State {
		d.receivedState(stream, &r.Response, r.Size, at)
	} else {
		d.received(stream, &r.Response, r.Size)
	}
}

// polled notes that a poll with these names was answered, with so many resources. A server that has nothing of
// what is polled for may hold the next poll, as a relay does that does not know whether there is something.
func (d *delivered) polled(stream wire.StreamID, names []string, count, bytes int) {
	t := d.of(stream, stream.TypeURL)
	t.names, t.answer, t.answered, t.bytes, t.ignored = names, names, count > 0, bytes, false
}

// unanswered takes a question that the server did not answer. It may have lost what that asked for, and have no
// word for it (RES-7). So the next question is about something else, if there is anything.
//
// The state of the world and increments forget in two ways. A type of the state of the world is marked, and comes after the
// other types until it is answered. Its last answer stays: the next list is compared with it (shrinks), and if all types
// are marked, one is asked for nevertheless. Samples of increments are dropped. A sample also says what the server owes an
// answer (due), and what is compared (comparison), and one that may be lost does neither: with a mark each of these
// would have to look at it. Samples come back with responses, and with the versions that a stream presents.
func (d *delivered) unanswered(q *question) {
	if d.state {
		for _, p := range q.parts {
			if t := d.types[deliveredKey{p.stream, p.typeURL}]; t != nil {
				t.ignored = true
			}
		}
		return
	}
	asked := func(key deliveredKey, name string) bool {
		return slices.ContainsFunc(q.parts, func(p part) bool { return p.typeURL == key.typeURL && slices.Contains(p.names, name) })
	}
	other := false
	for key, t := range d.types {
		for name := range t.samples {
			other = other || !asked(key, name)
		}
	}
	if !other {
		return
	}
	for key, t := range d.types {
		maps.DeleteFunc(t.samples, func(name string, _ content) bool { return asked(key, name) })
	}
}

func has(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// askable reports whether the request that was answered last is a question: nothing is wanted
// that it did not ask for.
func (t *deliveredType) askable() bool {
	if !t.answered || len(t.names) == 0 || len(t.answer) == 0 {
		return t.answered && len(t.names) == len(t.answer)
	}
	return !slices.ContainsFunc(t.names, func(name string) bool { return !has(t.answer, name) })
}

// question is one that the server must answer, nil if there is none. It asks for one name, or
// several at the most. In turn it is about each type of which names are wanted; about those
// that are wanted as a whole only if there are no others, since some servers send all of
// them.
func (d *delivered) question(p purpose) *question {
	most := oneName
	switch p {
	case toHear:
	case toFind:
		most = someNames
	case toCompare:
		return d.comparison()
	}
	var best deliveredKey
	found := false
	for key, t := range d.types {
		if !t.held(d.state) || found && !d.before(key, best) {
			continue
		}
		best, found = key, true
	}
	if !found {
		return nil
	}
	d.last = best
	return &question{parts: []part{d.part(best, most)}}
}

// comparison asks for all resources that are remembered with their contents, for each once (SUB-10): the
// wildcard's stream and that of the names may both have brought it. It is nil if there are none.
func (d *delivered) comparison() *question {
	var q question
	of := make(map[string]int) // the part of a type
	for key, t := range d.types {
		if d.state || !t.comparable() {
			continue
		}
		p := d.part(key, maxSamples)
		if at, asked := of[p.typeURL]; asked {
			q.parts[at].join(p)
			continue
		}
		of[p.typeURL] = len(q.parts)
		q.parts = append(q.parts, p)
	}
	if len(q.parts) == 0 {
		return nil
	}
	return &q
}

// comparable reports whether the content of a resource is remembered.
func (t *deliveredType) comparable() bool {
	for _, c := range t.samples {
		if c.sum != 0 {
			return true
		}
	}
	return false
}

func (d *delivered) part(key deliveredKey, most int) part {
	t := d.types[key]
	if d.state {
		return part{stream: key.stream, typeURL: key.typeURL, names: t.answer}
	}
	p := part{stream: key.stream, typeURL: key.typeURL, held: make(map[string]content)}
	for name, c := range t.samples {
		if len(p.names) >= most {
			break
		}
		p.names, p.held[name] = append(p.names, name), c
	}
	return p
}

// held reports whether something can be asked for.
func (t *deliveredType) held(state bool) bool {
	if state {
		return t.askable()
	}
	return len(t.samples) > 0
}

// before reports whether a is asked for rather than b.
func (d *delivered) before(a, b deliveredKey) bool {
	x, y := d.types[a], d.types[b]
	if x.ignored != y.ignored {
		return !x.ignored
	}
	if secret := isSecret(a.typeURL); secret != isSecret(b.typeURL) {
		return !secret
	}
	if d.state {
		return x.bytes < y.bytes
	}
	if x.whole != y.whole {
		return !x.whole
	}
	// The next one after the last, in a circle.
	after := func(key deliveredKey) bool { return key.order() > d.last.order() }
	if after(a) != after(b) {
		return after(a)
	}
	return a.order() < b.order()
}

func isSecret(typeURL string) bool { return strings.HasSuffix(typeURL, secretSuffix) }

func (k deliveredKey) order() string { return k.typeURL + "\x00" + k.stream.String() }

// contradicts reports whether a reply has another content at a version that the session holds.
func (q *question) contradicts(r reply) (name string, found bool) {
	for _, p := range q.parts {
		for _, res := range r.resources[p.typeURL] {
			if p.held[res.Name].differs(res) {
				return res.Name, true
			}
		}
	}
	return "", false
}
