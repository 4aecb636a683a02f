package upstream

import (
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// stateDialect is the state of the world: every request says all that is wanted of
// its type, the version last accepted and the nonce last heard of (STR-9).
//
// A request that the server has not read when it sends the next response is stale and
// ignored. The answer to that response says the same names, so that this loses only that a
// name was left out for a while: see anewNames.
//
// A new stream does not present the version that is held: a server that was restarted
// may use it for other contents, and must be heard (ACK-4). Nor does it present none
// where something is held. A relay upstream that was restarted would take that for a
// client that has nothing to lose, and send a list as far as it knows it, which takes
// away the rest here (RES-2). So it presents a version that no server has
// (wire.Unconfirmed).
type stateDialect struct {
	fullState map[string]bool
	perType   bool
	types     map[string]*stateType
	round     int // of the Store's changes; see begin
	// owed are the types of which the request for the last change was put off, with the
	// round in which it was.
	owed map[string]int
	// checks: the server is asked for resources that it may have left out, on another stream.
	checks bool
	// shed has the Store let go of names of a type that nobody watches, of about as
	// many bytes, and reports whether there were any: they come with the Store's
	// next changes (RES-17).
	shed func(typeURL string, bytes int) bool
	// leftOut tells the Store for which names there is no room, and for which there is some again.
	leftOut func(typeURL string, out, in []string)
	// large is told once for each type whose request would pass the limit.
	large func(typeURL string, names, leftOut, bytes, limit int)
}

// stateType is a type on its stream.
type stateType struct {
	wanted stateNames

	last []string // as they were said last
	next []string // as they are in the request that was made last
	// legacy: the server was asked for everything by an empty list, which means that
	// only as long as no name was given on the stream (SUB-2). named: one was.
	legacy, named  bool
	said           bool                // a request was given out
	again          map[string]struct{} // asked for anew since, and in last
	room           int                 // bytes of a request, without the node
	told           bool                // it was told that one passed the limit
	anewNames      anewNames           // of a type whose responses need not hold everything
	added          addedNames
	heard          bool // a response was taken on the stream
	version, nonce string
}

func (d *stateDialect) of(typeURL string) *stateType {
	t := d.types[typeURL]
	if t == nil {
		t = &stateType{wanted: newStateNames(nameSize)}
		d.types[typeURL] = t
	}
	return t
}

func (t *stateType) change(sub wire.Subscription, full bool) {
	for _, name := range sub.Unsubscribe {
		t.wanted.remove(name)
		t.added.leave(name)
		if !full && !collection(name) {
			t.anewNames.leave(name)
		}
	}
	for _, name := range sub.Subscribe {
		t.wanted.add(name)
		_, said := slices.BinarySearch(t.last, name)
		if !full && !collection(name) {
			t.anewNames.want(name, said)
		}
		if said {
			if t.again == nil {
				t.again = make(map[string]struct{})
			}
			t.again[name] = struct{}{}
		}
	}
}

// wholly reports whether everything is wanted, and no name beside it.
func (t *stateType) wholly() bool {
	_, all := t.wanted.names[wildcard]
	return all && len(t.wanted.names) == 1
}

// bare is a request without names.
func (t *stateType) bare(typeURL string) *discoveryv3.DiscoveryRequest {
	t.next = nil
	return &discoveryv3.DiscoveryRequest{TypeUrl: typeURL, VersionInfo: t.version, ResponseNonce: t.nonce}
}

// request asks for the demand of a type, as far as there is room.
func (t *stateType) request(typeURL string) *discoveryv3.DiscoveryRequest {
	r := t.bare(typeURL)
	if !t.legacy {
		t.fill(r, t.wanted.listed())
	}
	return r
}

// whole is the size of a request for everything that is wanted.
func (t *stateType) whole(typeURL string) int {
	size := proto.Size(t.bare(typeURL))
	if !t.legacy {
		size += t.wanted.total
	}
	return size
}

// fill puts names into a request.
func (t *stateType) fill(r *discoveryv3.DiscoveryRequest, names []string) {
	t.next, r.ResourceNames = names, names
}

// say notes that a request goes out.
func (t *stateType) say(r *discoveryv3.DiscoveryRequest) request {
	t.said = true
	t.named = t.named || len(r.GetResourceNames()) > 0
	t.last = t.next
	return r
}

// anew is the list to send first where names are asked for again that the last list had (TTL-5),
// nil elsewhere: a server does not answer the same list again. A list without them comes in
// between, if only the empty one, which is no wildcard after a name (SUB-2).
func (t *stateType) anew(typeURL string) request {
	again := func(name string) bool { _, ok := t.again[name]; return ok }
	if t.legacy || len(t.again) == 0 || !slices.ContainsFunc(t.wanted.listed(), again) {
		return nil
	}
	r := t.bare(typeURL)
	t.fill(r, slices.DeleteFunc(slices.Clone(t.wanted.list), again))
	return t.say(r)
}

// ask asks for the demand of a type, as far as there is room. size is that of a request with all names.
func (d *stateDialect) ask(typeURL string, size int) (out []request) {
	t := d.types[typeURL]
	if d.fit(t, typeURL, size); t.pointless() {
		delete(d.owed, typeURL)
		return nil
	}
	if first := t.anew(typeURL); first != nil {
		out = append(out, first)
	}
	t.again = nil
	delete(d.owed, typeURL)
	return append(out, t.say(t.request(typeURL)))
}

// subscribe gives one request: the variant cannot send a part of a list. Where it would be
// too large, names that nobody watches are let go first, and it waits for that. If that does not
// suffice, the newest names are left out (see fit).
func (d *stateDialect) subscribe(sub wire.Subscription, reserved, limit int) []request {
	if len(sub.Subscribe)+len(sub.Unsubscribe) == 0 {
		return nil
	}
	t := d.of(sub.TypeURL)
	before := t.legacy
	t.change(sub, d.fullState[sub.TypeURL])
	if d.checks && t.said {
		t.awaitAdded(sub.Subscribe)
	}
	if sub.Held && !t.said {
		t.version = wire.Unconfirmed
	}
	// Types of which every response is complete know this form longer than "*".
	t.legacy = t.wholly() && !t.named && d.fullState[sub.TypeURL]
	if len(t.wanted.names) == 0 && (d.perType || !t.said) {
		return nil // the stream ends; or nothing was asked for, and to say so would ask for everything
	}
	var out []request
	if before && !t.legacy {
		// An empty list has meant everything so far. With "*" in between it means
		// nothing, to servers that know "*" and to those that take it for a name.
		all := t.bare(sub.TypeURL)
		t.fill(all, []string{wildcard})
		out = append(out, t.say(all))
	}
	t.room = limit - reserved
	size := t.whole(sub.TypeURL)
	// Some more than that, or the next name would make it too large again.
	if size > t.room && d.shed(sub.TypeURL, size-t.room+limit/8) {
		d.owed[sub.TypeURL] = d.round
		return out
	}
	return append(out, d.ask(sub.TypeURL, size)...)
}

// begin begins a round. A request that is put off between two rounds belongs to the one before, as
// the names that the Store lets go of come with the next.
func (d *stateDialect) begin() {
	d.round++
	for _, t := range d.types {
		t.wanted.gone = nil
	}
}

// flush sends the requests that were put off in an earlier round, unless a later change has sent
// them: the names that were to be let go may be wanted again.
func (d *stateDialect) flush() (out []request) {
	for _, typeURL := range slices.Sorted(maps.Keys(d.owed)) {
		switch {
		case d.owed[typeURL] == d.round:
		case len(d.types[typeURL].wanted.names) > 0:
			out = append(out, d.ask(typeURL, d.types[typeURL].whole(typeURL))...)
		default:
			delete(d.owed, typeURL)
		}
	}
	return out
}

// owes reports whether something of a type is put off.
func (d *stateDialect) owes(typeURL string) bool {
	_, owed := d.owed[typeURL]
	return owed
}

// fit leaves out the newest names of a type, if a request with all of them passes the limit: the
// server would refuse it whole, and end the stream, again and again (RES-17). A name that was said
// before a later one stays before it. So a request takes no name back that an earlier one had, but
// for "*", which goes first. A name that has no room even alone keeps nobody out.
func (d *stateDialect) fit(t *stateType, typeURL string, size int) {
	bare := proto.Size(&discoveryv3.DiscoveryRequest{TypeUrl: typeURL})
	out, in := t.wanted.fit(t.room-bare, min(t.room/8, answerRoom), t.legacy || size <= t.room, t.last)
	if t.wanted.leftOut > 0 {
		d.tell(t, typeURL, size)
	}
	if len(out)+len(in) > 0 {
		d.leftOut(typeURL, out, in)
	}
}

// pointless reports whether a request would say nothing new, since all new names are left out. A
// first one without names would even ask for everything (SUB-2).
func (t *stateType) pointless() bool {
	switch {
	case t.wanted.leftOut == 0:
		return false
	case t.wanted.none() && !t.named:
		return true
	}
	return t.said && len(t.again) == 0 && t.saysAll()
}

// saysAll reports whether the last list has all names for which there is room now.
func (t *stateType) saysAll() bool {
	return len(t.wanted.changed) == 0 && len(t.last) == len(t.wanted.list) && (len(t.wanted.list) == 0 || &t.last[0] == &t.wanted.list[0])
}

// tell says once that names of a type are left out.
func (d *stateDialect) tell(t *stateType, typeURL string, size int) {
	if !t.told {
		t.told = true
		d.large(typeURL, len(t.wanted.names), t.wanted.leftOut, size, t.room)
	}
}

// answer repeats the list of the demand, or where a request is put off for its size, the last
// list.
func (d *stateDialect) answer(e envelope, reason error) request {
	t := d.types[e.typeURL]
	if t == nil || !t.said {
		return d.answerUnasked(e, reason)
	}
	t.nonce = e.nonce
	if reason == nil {
		t.version = e.version
	}
	r := t.bare(e.typeURL)
	switch {
	case d.owes(e.typeURL):
		t.fill(r, t.last)
	case t.legacy:
	case reason == nil:
		t.fill(r, t.anewNames.answered(t.wanted.listed()))
	default:
		t.fill(r, t.wanted.listed())
	}
	r.ErrorDetail = errorDetail(reason)
	return t.say(r)
}

// answerUnasked answers a response for a type that the server was not asked for (SUB-13). It keeps no version: the
// first request for the type has the server send all of it again. There is none if the first request is put off, or
// the stream is that of another type.
func (d *stateDialect) answerUnasked(e envelope, reason error) request {
	if d.perType {
		return nil
	}
	t := d.of(e.typeURL)
	if len(t.wanted.names) > 0 {
		return nil
	}
	t.nonce = e.nonce
	r := t.bare(e.typeURL)
	if reason == nil {
		r.VersionInfo = e.version
	}
	r.ErrorDetail = errorDetail(reason)
	return r
}

// came notes the resources of a response that was applied.
func (d *stateDialect) came(r *wire.Response) {
	if t := d.types[r.TypeURL]; t != nil {
		t.heard = true
		t.added.came(r.Resources)
		t.anewNames.came(r.Resources)
	}
}

// behind is the list to send behind an answer: all names, if the answer left some out.
func (d *stateDialect) behind(typeURL string) []request {
	t := d.types[typeURL]
	if t == nil || t.legacy || d.owes(typeURL) || len(t.last) == len(t.wanted.list) {
		return nil
	}
	return []request{t.say(t.request(typeURL))}
}
