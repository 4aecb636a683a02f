package cache

import (
	"hash/maphash"
	"iter"
	"slices"
	"strings"
)

// claims are what a client said it holds of a collection, or what it may hold, by key,
// until each was compared (RES-11). They are a map in three pieces of memory without
// pointers: as many clients may wait for a cold store as there are, each with a thousand
// versions. The nil one is empty. Guarded like cursor.
type claims struct {
	seed  maphash.Seed
	text  *strings.Builder // keys and versions
	all   []claim
	slots []uint32 // open addressing: place in all, from 1; 0: none
	left  int      // of all, those that are not settled
}

// claim is one of them: where its key and its version stand in the text. It is settled
// if the version ends before it begins.
type claim struct{ key, keyEnd, version, end uint32 }

func (x *claim) settled() bool { return x.end < x.version }

// newClaims makes room for n claims with a text of some size.
func newClaims(seed maphash.Seed, n, size int) *claims {
	c := &claims{seed: seed, text: new(strings.Builder)}
	c.all = make([]claim, 0, n)
	c.text.Grow(size)
	c.spread()
	return c
}

// spread makes slots for all claims that there is room for, of which a third at least
// stays free.
func (c *claims) spread() {
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

// fit lets go of room that was not needed, if that is most of it.
func (c *claims) fit() {
	if len(c.all) <= cap(c.all)/2 {
		c.all = slices.Clone(c.all)
		c.spread()
	}
}

func (c *claims) part(from, to uint32) string { return c.text.String()[from:to] }

// find gives the slot of a key, and its claim; nil if there is none, and the slot is free.
func (c *claims) find(key string) (int, *claim) {
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

// write appends to the text, and tells where it stands.
func (c *claims) write(s string) (from, to uint32) {
	from = uint32(c.text.Len())
	c.text.WriteString(s)
	return from, uint32(c.text.Len())
}

// set notes a claim, in place of an earlier one under the key. It keeps neither string.
func (c *claims) set(key, version string) {
	slot, x := c.find(key)
	if x == nil {
		if len(c.all) == cap(c.all) && 2*c.left < len(c.all) {
			c.renew()
			slot, _ = c.find(key)
		}
		grown := len(c.all) == cap(c.all)
		c.all = append(c.all, claim{version: 1})
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

// renew forgets what was settled, before more room is made: most of it was.
func (c *claims) renew() {
	now := newClaims(c.seed, len(c.all), 0)
	for key := range c.keys() {
		version, _ := c.get(key)
		now.set(key, version)
	}
	c.text, c.all, c.slots = now.text, now.all, now.slots
}

// get gives the version that a key is claimed with.
func (c *claims) get(key string) (version string, claimed bool) {
	if c == nil {
		return "", false
	}
	_, x := c.find(key)
	if x == nil || x.settled() {
		return "", false
	}
	return c.part(x.version, x.end), true
}

// has reports whether a key is claimed.
func (c *claims) has(key string) bool {
	_, claimed := c.get(key)
	return claimed
}

// settle takes a claim out, and gives what is left: nil for none, since memory does not
// shrink, and a client may live for months after it began with many.
func (c *claims) settle(key string) *claims {
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

// doubt has nobody know the versions any longer.
func (c *claims) doubt() {
	if c == nil {
		return
	}
	for i := range c.all {
		if x := &c.all[i]; !x.settled() {
			x.end = x.version
		}
	}
}

// keys are those claimed.
func (c *claims) keys() iter.Seq[string] {
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

// sorted are the keys in order.
func (c *claims) sorted() []string { return slices.Sorted(c.keys()) }

// none reports whether nothing is claimed.
func (c *claims) none() bool { return c == nil || c.left == 0 }
