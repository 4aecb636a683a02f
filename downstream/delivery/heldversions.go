package delivery

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
)

// heldVersions are the versions that a client said it holds of a collection, or may hold, by
// key, until each was compared (RES-11). The map is three pieces of memory without pointers:
// many clients may wait for a cold store, each with a thousand versions. nil is empty. Guarded
// like Cursor.
type heldVersions struct {
	seed  maphash.Seed
	text  *strings.Builder // keys and versions
	all   []heldVersion
	slots []uint32 // open addressing: place in all, from 1; 0: none
	left  int      // of all, those that are not settled
}

// heldVersion is one of them: where its key and its version are in the text. It is settled if
// the version ends before it begins.
type heldVersion struct{ key, keyEnd, version, end uint32 }

func (x *heldVersion) settled() bool { return x.end < x.version }

// newHeldVersions makes room for n versions with a text of some size.
func newHeldVersions(seed maphash.Seed, n, size int) *heldVersions {
	c := &heldVersions{seed: seed, text: new(strings.Builder)}
	c.all = make([]heldVersion, 0, n)
	c.text.Grow(size)
	c.spread()
	return c
}

// spread makes slots for all versions that there is room for. A third at least stays free.
func (c *heldVersions) spread() {
	n := 4
	for 2*n < 3*cap(c.all) {
		n *= 2
	}
	c.slots = make([]uint32, n)
	for i := range c.all {
		slot, _ := c.find(c.part(c.all[i].key, c.all[i].keyEnd))
		c.slots[slot] = uint32(i + 1)
	}
}

// fit releases room that was not needed, if that is most of it.
func (c *heldVersions) fit() {
	if len(c.all) <= cap(c.all)/2 {
		c.all = slices.Clone(c.all)
		c.spread()
	}
}

func (c *heldVersions) part(from, to uint32) string { return c.text.String()[from:to] }

// find returns the slot of a key, and its version; nil if there is none, and the slot is free.
func (c *heldVersions) find(key string) (int, *heldVersion) {
	last := len(c.slots) - 1
	for slot := int(maphash.String(c.seed, key)) & last; ; slot = (slot + 1) & last {
		place := c.slots[slot]
		if place == 0 {
			return slot, nil
		}
		if x := &c.all[place-1]; c.part(x.key, x.keyEnd) == key {
			return slot, x
		}
	}
}

// write appends to the text, and returns where it is.
func (c *heldVersions) write(s string) (from, to uint32) {
	from = uint32(c.text.Len())
	c.text.WriteString(s)
	return from, uint32(c.text.Len())
}

// set records a version, in place of an earlier one under the key. It keeps neither string.
func (c *heldVersions) set(key, version string) {
	slot, x := c.find(key)
	if x == nil {
		if len(c.all) == cap(c.all) && 2*c.left < len(c.all) {
			c.renew()
			slot, _ = c.find(key)
		}
		grown := len(c.all) == cap(c.all)
		c.all = append(c.all, heldVersion{version: 1})
		x = &c.all[len(c.all)-1]
		x.key, x.keyEnd = c.write(key)
		if c.slots[slot] = uint32(len(c.all)); grown {
			c.spread()
		}
	}
	if x.settled() {
		c.left++
	}
	x.version, x.end = c.write(version)
}

// renew forgets settled versions before more room is made: most are settled.
func (c *heldVersions) renew() {
	now := newHeldVersions(c.seed, len(c.all), 0)
	for key := range c.keys() {
		version, _ := c.get(key)
		now.set(key, version)
	}
	c.text, c.all, c.slots = now.text, now.all, now.slots
}

// get returns the version that the client holds of a key.
func (c *heldVersions) get(key string) (version string, claimed bool) {
	if c == nil {
		return "", false
	}
	_, x := c.find(key)
	if x == nil || x.settled() {
		return "", false
	}
	return c.part(x.version, x.end), true
}

// has reports whether the client holds a version of a key.
func (c *heldVersions) has(key string) bool {
	_, claimed := c.get(key)
	return claimed
}

// settle takes a version out, and returns what is left: nil for none. Memory does not shrink,
// and a client may live for months after it began with many.
func (c *heldVersions) settle(key string) *heldVersions {
	if c == nil {
		return nil
	}
	if _, x := c.find(key); x != nil && !x.settled() {
		x.version, x.end = 1, 0
		c.left--
	}
	if c.left == 0 {
		return nil
	}
	return c
}

// doubt records that the client holds the keys in unknown versions.
func (c *heldVersions) doubt() {
	if c == nil {
		return
	}
	for i := range c.all {
		if x := &c.all[i]; !x.settled() {
			x.end = x.version
		}
	}
}

// keys returns the keys that are not settled.
func (c *heldVersions) keys() iter.Seq[string] {
	return func(yield func(string) bool) {
		if c == nil {
			return
		}
		for i := range c.all {
			if x := &c.all[i]; !x.settled() && !yield(c.part(x.key, x.keyEnd)) {
				return
			}
		}
	}
}

// sorted returns them in order.
func (c *heldVersions) sorted() []string { return slices.Sorted(c.keys()) }

// none reports whether all are settled.
func (c *heldVersions) none() bool { return c == nil || c.left == 0 }

// check verifies that each version is found, and their number.
func (c *heldVersions) check(check *cache.Checker, collection string) {
	if c == nil {
		return
	}
	left := 0
	for key := range c.keys() {
		left++
		check.That(c.has(key), "%q: the version held of %q is not found", collection, key)
	}
	check.That(left == c.left, "%q: %d held versions are left, counted as %d", collection, left, c.left)
}
