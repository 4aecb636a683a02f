package cache

import (
	"iter"
	"slices"
	"strings"
)

// fewNames is how many subscriptions are kept in a list: as many as are compared about as
// fast as one name is hashed.
const fewNames = 16

// nameSubs are a client's subscriptions to names, found by spelling. Most clients have a few,
// for which a map takes more memory than what it leads to. The zero one is empty.
type nameSubs struct {
	list []*nameSub          // until there were more than fewNames
	many map[string]*nameSub // since then
}

// get finds the subscription under a spelling, nil if there is none.
func (s *nameSubs) get(spelling string) *nameSub {
	if s.many != nil {
		return s.many[spelling]
	}
	for _, sub := range s.list {
		if sub.spelling == spelling {
			return sub
		}
	}
	return nil
}

// reserve makes room for n more. What grows step by step leaves holes between what lasts,
// and clients come by the thousand.
func (s *nameSubs) reserve(n int) {
	switch {
	case s.many != nil:
	case n > fewNames:
		s.index(n)
	case len(s.list) == 0 && n > 1: // else they may be there already
		s.list = make([]*nameSub, 0, n)
	}
}

// index turns the list into a map with room for n more.
func (s *nameSubs) index(n int) {
	s.many = make(map[string]*nameSub, len(s.list)+n)
	for _, sub := range s.list {
		s.many[sub.spelling] = sub
	}
	s.list = nil
}

// add takes in one whose spelling is new.
func (s *nameSubs) add(sub *nameSub) {
	if s.many == nil && len(s.list) == fewNames {
		s.index(fewNames)
	}
	if s.many != nil {
		s.many[sub.spelling] = sub
		return
	}
	s.list = append(s.list, sub)
}

// remove takes one out.
func (s *nameSubs) remove(sub *nameSub) {
	if s.many != nil {
		s.many = without(s.many, sub.spelling)
		return
	}
	i := slices.Index(s.list, sub)
	s.list = slices.Delete(s.list, i, i+1)
}

func (s *nameSubs) len() int { return len(s.list) + len(s.many) }

// all goes over them, in no order. They must not be changed meanwhile.
func (s *nameSubs) all() iter.Seq[*nameSub] {
	return func(yield func(*nameSub) bool) {
		for _, sub := range s.list {
			if !yield(sub) {
				return
			}
		}
		for _, sub := range s.many {
			if !yield(sub) {
				return
			}
		}
	}
}

// sorted lists them by spelling.
func (s *nameSubs) sorted() []*nameSub {
	return slices.SortedFunc(s.all(), func(a, b *nameSub) int { return strings.Compare(a.spelling, b.spelling) })
}

// check verifies that each is found under its spelling.
func (s *nameSubs) check(c *checker) {
	c.that(len(s.list) == 0 || s.many == nil, "names are in a list and in a map")
	c.that(len(s.list) <= fewNames, "%d names are in a list", len(s.list))
	for sub := range s.all() {
		c.that(s.get(sub.spelling) == sub, "subscription to %q is not found", sub.spelling)
	}
}
