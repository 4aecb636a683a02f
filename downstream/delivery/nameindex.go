package delivery

import (
	"iter"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/smallmap"
)

// fewNames is how many subscriptions are kept in a list: as many as are compared about as fast
// as one name is hashed.
const fewNames = 16

// nameIndex are a client's subscriptions to names, by spelling. Most clients have a few, for
// which a map takes more memory than its content. The zero index is empty.
type nameIndex struct {
	list []*nameSub          // until there were more than fewNames
	many map[string]*nameSub // since then

	// By key, those that are not spelled like their key: a client may spell a name in many
	// ways, and none of its requests may cost the square of its length.
	respelled map[string][]*nameSub

	bytes int        // of the spellings
	sum   digest.Sum // of their contents, in the state of the world
}

// get finds the subscription under a spelling, nil if there is none.
func (i *nameIndex) get(spelling string) *nameSub {
	if i.many != nil {
		return i.many[spelling]
	}
	for _, sub := range i.list {
		if sub.spelling == spelling {
			return sub
		}
	}
	return nil
}

// reserve makes room for n more. What grows step by step leaves holes between what lasts, and
// clients come by the thousand.
func (i *nameIndex) reserve(n int) {
	switch {
	case i.many != nil:
	case n > fewNames:
		i.index(n)
	case len(i.list) == 0 && n > 1: // else they may be there already
		i.list = make([]*nameSub, 0, n)
	}
}

// index turns the list into a map with room for n more.
func (i *nameIndex) index(n int) {
	i.many = make(map[string]*nameSub, len(i.list)+n)
	for _, sub := range i.list {
		i.many[sub.spelling] = sub
	}
	i.list = nil
}

// add takes in a subscription to a key whose spelling is new.
func (i *nameIndex) add(sub *nameSub, key string) {
	if i.many == nil && len(i.list) == fewNames {
		i.index(fewNames)
	}
	if i.many != nil {
		i.many[sub.spelling] = sub
	} else {
		i.list = append(i.list, sub)
	}
	if sub.spelling != key {
		i.respelled = withOne(i.respelled, key, sub)
	}
	i.bytes += len(sub.spelling)
}

// remove takes out a subscription to a key.
func (i *nameIndex) remove(sub *nameSub, key string) {
	if i.many != nil {
		i.many = smallmap.Without(i.many, sub.spelling)
	} else {
		at := slices.Index(i.list, sub)
		i.list = slices.Delete(i.list, at, at+1)
	}
	if sub.spelling != key {
		i.respelled = withoutOne(i.respelled, key, sub)
	}
	i.bytes -= len(sub.spelling)
}

func (i *nameIndex) len() int { return len(i.list) + len(i.many) }

// all goes over them, in no order. They must not be changed meanwhile.
func (i *nameIndex) all() iter.Seq[*nameSub] {
	return func(yield func(*nameSub) bool) {
		for _, sub := range i.list {
			if !yield(sub) {
				return
			}
		}
		for _, sub := range i.many {
			if !yield(sub) {
				return
			}
		}
	}
}

// has reports whether one of the subscriptions is as asked.
func (i *nameIndex) has(asked func(*nameSub) bool) bool {
	for sub := range i.all() {
		if asked(sub) {
			return true
		}
	}
	return false
}

// sorted lists them by spelling.
func (i *nameIndex) sorted() []*nameSub {
	return slices.SortedFunc(i.all(), func(a, b *nameSub) int { return strings.Compare(a.spelling, b.spelling) })
}

// check verifies that each is found under its spelling.
func (i *nameIndex) check(c *cache.Checker) {
	c.That(len(i.list) == 0 || i.many == nil, "names are in a list and in a map")
	c.That(len(i.list) <= fewNames, "%d names are in a list", len(i.list))
	for sub := range i.all() {
		c.That(i.get(sub.spelling) == sub, "subscription to %q is not found", sub.spelling)
	}
}

// one returns one of the subscriptions to a key, nil if there is none.
func (i *nameIndex) one(key string) *nameSub {
	if sub := i.get(key); sub != nil || len(i.respelled[key]) == 0 {
		return sub
	}
	return i.respelled[key][0]
}

// named reports whether the client subscribes to a key by name. It is sent the key by that name
// then, also where a collection holds the key.
func (i *nameIndex) named(key string) bool { return i.one(key) != nil }

// subsOf are the client's subscriptions to a key, in all spellings.
func (i *nameIndex) subsOf(key string) iter.Seq[*nameSub] {
	return func(yield func(*nameSub) bool) {
		if sub := i.get(key); sub != nil && !yield(sub) {
			return
		}
		for _, sub := range i.respelled[key] {
			if !yield(sub) {
				return
			}
		}
	}
}

// passOn gives what a name that ended held to another spelling of it: as long as there are
// some, one of them knows.
func (i *nameIndex) passOn(key string) {
	if sub := i.one(key); sub != nil {
		sub.holds = true
	}
}

// markHeld records that the client may have the resource of a key.
func (i *nameIndex) markHeld(key string) {
	for sub := range i.subsOf(key) {
		sub.holds = true
	}
}

// leaveToName leaves a member that a collection lost to the client's subscriptions to its name
// whose answer may still come, and reports whether there is any. If the server stays silent
// (RES-7), a client that may have the member is told then that it is gone.
func (i *nameIndex) leaveToName(key string, mayHave bool) (left bool) {
	for sub := range i.subsOf(key) {
		if sub.entry.Unanswered() {
			sub.absenceDue, sub.holds, left = true, sub.holds || mayHave, true
		}
	}
	return left
}

// returned records that a collection has a member again that it had lost: see leaveToName.
func (i *nameIndex) returned(key string) {
	if i.len() == 0 {
		return
	}
	for sub := range i.subsOf(key) {
		if sub.entry.Open() {
			sub.absenceDue = false
		}
	}
}

// withOne puts v into the list under a key.
func withOne[V any](m map[string][]V, key string, v V) map[string][]V {
	if m == nil {
		m = make(map[string][]V)
	}
	m[key] = append(m[key], v)
	return m
}

// withoutOne takes v off the list under a key.
func withoutOne[V comparable](m map[string][]V, key string, v V) map[string][]V {
	list := m[key]
	if i := slices.Index(list, v); i >= 0 {
		list = slices.Delete(list, i, i+1)
	}
	if len(list) == 0 {
		return smallmap.Without(m, key)
	}
	m[key] = list
	return m
}
