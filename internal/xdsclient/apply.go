package xdsclient

import (
	"errors"
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// keepCap bounds the scratch memory kept from one response to the next, in
// entries: what the first, large one took must not stay with every client.
const keepCap = 64

var errTypeURL = errors.New("a response for a type that was not requested on this stream")

// handle takes a response up and answers it.
func (l *link) handle(r *wire.Received) {
	c := l.client
	l.responses++
	if r.TypeURL == "" {
		r.TypeURL = l.typeURL // it is needed where there are several types only
	}
	resp := &l.response
	*resp = Response{TypeURL: r.TypeURL, Nonce: r.Nonce, SystemVersion: r.Version, Size: r.Size, Changes: resp.Changes}
	resp.Err = l.compare(r)
	reason := resp.Err
	if c.options.OnResponse != nil {
		if err := c.options.OnResponse(resp); reason == nil {
			reason = err
		}
	}
	l.finish(resp, reason)
	clear(resp.Changes)
	resp.Changes = resp.Changes[:0]
	if cap(resp.Changes) > keepCap {
		resp.Changes = nil
	}
}

// compare fills in what a response changes, or says why it must be rejected.
func (l *link) compare(r *wire.Received) error {
	if r.Err != nil {
		return r.Err
	}
	if err := checkNames(&r.Response); err != nil {
		return err
	}
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[r.TypeURL]
	if t == nil || t.link != l || !t.requested {
		return errTypeURL
	}
	changes := l.response.Changes
	for _, res := range r.Resources {
		changes = append(changes, t.compare(res, c.messages.version(res)))
	}
	for _, name := range r.Removed {
		changes = t.compareRemoved(changes, name)
	}
	for i := range r.Errors {
		e := &r.Errors[i]
		changes = t.compareFailed(changes, e)
		changes = append(changes, Change{Kind: Failed, Name: e.Name, Old: t.held[e.Name].Version, Error: e})
	}
	if c.messages.fullState(t.url) {
		changes = t.compareMissing(changes)
	}
	l.response.Changes = changes
	return nil
}

// checkNames refuses a response that has payloads of another type, if its own is known, or that
// says two things of one name (ACK-6, RES-4, VAR-8).
func checkNames(r *wire.Response) error {
	for _, res := range r.Resources {
		if typeURL := res.TypeURL(); res.HasPayload() && !wire.MayHold(r.TypeURL, typeURL) && xds.HasService(r.TypeURL) {
			return fmt.Errorf("the resource %q is a %q in a response for %q", res.Name, typeURL, r.TypeURL)
		}
	}
	if len(r.Resources) == 0 || len(r.Resources)+len(r.Removed) < 2 {
		return nil
	}
	names := make(map[string]struct{}, len(r.Resources))
	for _, res := range r.Resources {
		if _, twice := names[res.Name]; twice {
			return fmt.Errorf("the response names %q twice", res.Name)
		}
		names[res.Name] = struct{}{}
	}
	for _, name := range r.Removed { // which may say twice that a name is gone
		if _, sent := names[name]; sent {
			return fmt.Errorf("the response both sends and removes %q", name)
		}
	}
	return nil
}

// compare says what a resource in a version is to somebody who holds what t does.
func (t *typeState) compare(r *wire.Resource, version string) Change {
	old, isHeld := t.held[r.Name]
	ch := Change{Name: r.Name, Version: version, Old: old.Version, Resource: r}
	switch {
	case !t.covers(r.Name, r.Aliases()):
		ch.Kind = Unrequested
	case !r.HasPayload(): // RES-16
		ch.Kind = Absent
		if isHeld {
			ch.Kind = Removed
			if old.Version == version {
				ch.Kind = Heartbeat
			}
		}
	case !isHeld:
		ch.Kind = Added
	case old.same(r, version):
		ch.Kind = Unchanged
	default:
		ch.Kind = Changed
	}
	return ch
}

// same tells whether r is what is held, as far as that can be told: without a
// version and without the resource it cannot.
func (h Held) same(r *wire.Resource, version string) bool {
	if h.Resource != nil {
		return h.Version == version && h.Resource.Digest() == r.Digest()
	}
	return h.Version == version && version != ""
}

// compareRemoved appends what a name in removed_resources means: that name goes,
// and what is held because of it under another one.
func (t *typeState) compareRemoved(changes []Change, name string) []Change {
	for _, member := range t.members(name) {
		changes = append(changes, Change{Kind: Removed, Name: member, Old: t.held[member].Version})
	}
	ch := Change{Kind: Absent, Name: name}
	if old, isHeld := t.held[name]; isHeld {
		ch.Kind, ch.Old = Removed, old.Version
	}
	return append(changes, ch)
}

// compareFailed appends what an error takes away beside what it is of: the members of a
// glob that does not exist.
func (t *typeState) compareFailed(changes []Change, e *wire.ResourceError) []Change {
	if !drops(e.Code) {
		return changes
	}
	for _, member := range t.members(e.Name) {
		gone := func(ch Change) bool { return ch.Kind == Removed && ch.Name == member }
		if !slices.ContainsFunc(changes, gone) {
			changes = append(changes, Change{Kind: Removed, Name: member, Old: t.held[member].Version})
		}
	}
	return changes
}

// compareMissing appends the removal of what is held and not in a full-state
// response, of which changes is what it says (RES-8). One that holds nothing but
// heartbeats renews them and is no list of what there is (TTL-3).
func (t *typeState) compareMissing(changes []Change) []Change {
	heartbeat := func(ch Change) bool { return ch.Kind == Heartbeat }
	if len(changes) > 0 && !slices.ContainsFunc(changes, func(ch Change) bool { return !heartbeat(ch) }) {
		return changes
	}
	mentioned := make(map[string]struct{}, len(changes))
	for i := range changes {
		mentioned[changes[i].Name] = struct{}{}
	}
	var missing []string
	for name := range t.held {
		_, there := mentioned[name]
		if _, excused := t.excused[name]; !there && !excused {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	for _, name := range missing {
		changes = append(changes, Change{Kind: Removed, Name: name, Old: t.held[name].Version})
	}
	return changes
}

// finish applies the response unless there is a reason not to, and answers it.
func (l *link) finish(r *Response, reason error) {
	c := l.client
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[r.TypeURL]
	if t != nil && reason == nil {
		t.answered = true
		t.accepted = r.SystemVersion
		for i := range r.Changes {
			t.apply(r.Changes[:i+1], c.options.KeepResources)
		}
	}
	if c.progress != nil {
		close(c.progress)
		c.progress = nil
	}
	a := answer{of: t, typeURL: r.TypeURL, nonce: r.Nonce, reason: reason}
	if l.typeURL != "" && r.TypeURL != l.typeURL {
		// A type's own service takes no request for another type (VAR-10).
		a.of, a.typeURL = c.types[l.typeURL], l.typeURL
	}
	if a.of != nil {
		a.version = a.of.accepted
	}
	if c.holdAcks {
		l.answers = append(l.answers, a)
		return
	}
	l.answerLocked(a)
}

// answerLocked answers a response. The names that go with it are those that are
// subscribed when it is sent, not when the response came.
func (l *link) answerLocked(a answer) {
	if a.of != nil {
		a.of.nonce = a.nonce
	}
	l.enqueueLocked(l.client.messages.answer(a))
}

// apply applies the last one of the changes of a response.
func (t *typeState) apply(changes []Change, keep bool) {
	ch, before := &changes[len(changes)-1], changes[:len(changes)-1]
	switch ch.Kind {
	case Added, Changed, Unchanged:
		// OnResponse, or anybody meanwhile, may have unsubscribed it.
		if r := ch.Resource; t.covers(r.Name, r.Aliases()) {
			t.put(r, ch.Version, keep)
		}
	case Removed, Absent:
		t.remove(ch.Name)
	case Failed:
		if drops(ch.Error.Code) {
			t.remove(ch.Name)
		}
		t.fail(ch.Name, slices.ContainsFunc(before, func(x Change) bool { return x.Name == ch.Name && x.Resource != nil }))
	case Heartbeat, Unrequested:
	}
}
