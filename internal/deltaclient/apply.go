package deltaclient

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// keepCap bounds the scratch memory kept from one response to the next, in
// entries: what the first, large one took must not stay with every client.
const keepCap = 64

var errTypeURL = errors.New("a response for a type that was not requested on this stream")

// handle takes a response up and answers it.
func (c *Client) handle(r *wire.Received) {
	c.responses++
	resp := &c.response
	*resp = Response{TypeURL: r.TypeURL, Nonce: r.Nonce, SystemVersion: r.SystemVersion, Size: r.Size, Changes: resp.Changes}
	resp.Err = c.compare(r)
	reason := resp.Err
	if c.options.OnResponse != nil {
		if err := c.options.OnResponse(resp); reason == nil {
			reason = err
		}
	}
	c.finish(resp, reason)
	clear(resp.Changes)
	resp.Changes = resp.Changes[:0]
	if cap(resp.Changes) > keepCap {
		resp.Changes = nil
	}
}

// compare fills in what a response changes, or says why it must be rejected.
func (c *Client) compare(r *wire.Received) error {
	if r.Err != nil {
		return r.Err
	}
	if err := c.checkNames(&r.DeltaResponse); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	t := c.types[r.TypeURL]
	if t == nil || !t.requested {
		return errTypeURL
	}
	changes := c.response.Changes
	for _, res := range r.Resources {
		changes = append(changes, t.compare(res))
	}
	for _, name := range r.Removed {
		changes = t.compareRemoved(changes, name)
	}
	for i := range r.Errors {
		e := &r.Errors[i]
		changes = append(changes, Change{Kind: Failed, Name: e.Name, Old: t.held[e.Name].version, Error: e})
	}
	c.response.Changes = changes
	return nil
}

// checkNames refuses a response that says two things of one name (ACK-6, RES-4).
func (c *Client) checkNames(r *wire.DeltaResponse) error {
	if len(r.Resources) == 0 || len(r.Resources)+len(r.Removed) < 2 {
		return nil
	}
	if c.names == nil {
		c.names = make(map[string]struct{})
	}
	defer func() {
		if len(c.names) > keepCap {
			c.names = nil // clear would keep the memory
		}
		clear(c.names)
	}()
	for _, res := range r.Resources {
		if _, twice := c.names[res.Name]; twice {
			return fmt.Errorf("the response names %q twice", res.Name)
		}
		c.names[res.Name] = struct{}{}
	}
	for _, name := range r.Removed { // which may say twice that a name is gone
		if _, sent := c.names[name]; sent {
			return fmt.Errorf("the response both sends and removes %q", name)
		}
	}
	return nil
}

// compare says what a resource is to somebody who holds what t does.
func (t *typeState) compare(r *wire.Resource) Change {
	old, isHeld := t.held[r.Name]
	ch := Change{Name: r.Name, Version: r.Version, Old: old.version, Resource: r}
	switch {
	case !t.covers(r.Name, r.Aliases):
		ch.Kind = Unrequested
	case !r.HasPayload(): // RES-16
		ch.Kind = Absent
		if isHeld {
			ch.Kind = Removed
			if old.version == r.Version {
				ch.Kind = Heartbeat
			}
		}
	case !isHeld:
		ch.Kind = Added
	case old.same(r):
		ch.Kind = Unchanged
	default:
		ch.Kind = Changed
	}
	return ch
}

// same tells whether r is what is held, as far as that can be told: without a
// version and without a digest it cannot.
func (h held) same(r *wire.Resource) bool {
	if h.more != nil && h.more.digest != "" {
		return h.version == r.Version && h.more.digest == r.Digest()
	}
	return h.version == r.Version && r.Version != ""
}

// compareRemoved appends what a name in removed_resources means: that name goes,
// and what is held because of it under another one.
func (t *typeState) compareRemoved(changes []Change, name string) []Change {
	for _, member := range t.members(name) {
		changes = append(changes, Change{Kind: Removed, Name: member, Old: t.held[member].version})
	}
	ch := Change{Kind: Absent, Name: name}
	if old, isHeld := t.held[name]; isHeld {
		ch.Kind, ch.Old = Removed, old.version
	}
	return append(changes, ch)
}

// finish applies the response unless there is a reason not to, and answers it.
func (c *Client) finish(r *Response, reason error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t := c.types[r.TypeURL]; t != nil && reason == nil {
		t.answered = true
		for i := range r.Changes {
			t.apply(&r.Changes[i], c.options.Keep)
		}
	}
	if c.progress != nil {
		close(c.progress)
		c.progress = nil
	}
	req := answer(r.TypeURL, r.Nonce, reason)
	if c.holdAcks {
		c.answers = append(c.answers, req)
		return
	}
	c.enqueueLocked(req)
}

func (t *typeState) apply(ch *Change, keep Keep) {
	switch ch.Kind {
	case Added, Changed, Unchanged:
		// OnResponse, or anybody meanwhile, may have unsubscribed it.
		if r := ch.Resource; t.covers(r.Name, r.Aliases) {
			t.put(r, keep)
		}
	case Removed, Absent:
		t.remove(ch.Name)
	case Failed:
		if drops(ch.Error.Code) {
			t.remove(ch.Name)
		}
		t.mark(ch.Name, Failing)
	case Heartbeat, Unrequested:
	}
}
