package delivery

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
)

// Check reports what is inconsistent in the place. The caller holds the store's lock for
// writing.
func (c *Place) Check() error {
	var errs []error
	for _, w := range c.types {
		if err := w.check(); err != nil {
			errs = append(errs, fmt.Errorf("subscription to %s: %w", w.typeURL, err))
		}
	}
	return errors.Join(errs...)
}

func (w *typeSub) check() error {
	c := &cache.Checker{}
	dirty := make(map[*nameSub]bool)
	ended, respelled := 0, 0
	for _, sub := range w.changed.names {
		c.That(!dirty[sub], "%q is dirty twice", sub.spelling)
		dirty[sub] = true
		if sub.ended {
			ended++
		}
	}
	c.That(ended == w.changed.ended, "%d dirty subscriptions ended, counted as %d", ended, w.changed.ended)
	var total digest.Sum
	w.subs.names.check(c)
	for sub := range w.subs.names.all() {
		name := sub.spelling
		total = total.Plus(sub.entry.Digest())
		c.That(sub.retained == nil || w.list.full, "%q keeps what it was", name)
		c.That(sub.typeSub == w && !sub.ended, "subscription to %q is broken", name)
		a := audienceOf(sub.entry)
		c.That(sub.pos < len(*a) && (*a)[sub.pos] == sub, "%q has a broken audience", name)
		c.That(sub.dirty == dirty[sub], "%q: dirty %t, listed %t", name, sub.dirty, dirty[sub])
		c.That(!sub.heartbeat || (sub.dirty && sub.entry.Exists() && sub.entry.Lifetime() != nil), "%q is to be told of a heartbeat that did not come", name)
		if name != sub.entry.Key() {
			respelled++
		}
	}
	for key, subs := range w.subs.names.respelled {
		respelled -= len(subs)
		for _, sub := range subs {
			c.That(w.subs.names.get(sub.spelling) == sub && sub.entry.Key() == key, "respelled %q of %q is broken", sub.spelling, key)
		}
	}
	for sub := range w.changed.errors.names {
		c.That(!sub.ended && sub.entry.Err() != nil && sub.entry.Exists(), "%q: an error is to be told that is no more", sub.spelling)
	}
	if w.subs.wildcard != nil {
		for key, v := range w.held.versions { // some of which what "*" has stands in for
			e := w.subs.wildcard.Collection().Table().Find(key)
			c.That(e == nil || e.Resource() == nil || v == "" || !cache.SameMemory(v, e.Resource().Shown()), "%q: the version that the client holds lies in what may go", key)
		}
	}
	for f := range w.subs.cursors() {
		f.held.check(c, f.Collection().Key())
	}
	c.That(!w.needs().Has(cache.NeedsDigests) || total == w.subs.names.sum, "sum of the names %s, found %s", w.subs.names.sum, total)
	c.That(respelled == 0, "%d respelled names are not listed", respelled)
	return c.Err()
}
