package delivery

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// usesParameters records that the client uses parameters, for all types: from now on it is told
// of everything that it named.
func (c *Place) usesParameters() {
	if c.located || c.form.State {
		return
	}
	c.located = true
	for _, w := range c.types {
		w.variants = w.variants.withNames(&w.subs.names)
	}
}

// withNames returns s, with all that the client was sent by name.
func (s *sentVariants) withNames(names *nameIndex) *sentVariants {
	s = s.begin()
	s.aware = true
	for sub := range names.all() {
		if _, noted := s.by[sub]; sub.holds && !noted {
			s.swap(sub, wire.Variant{Name: sub.shown()})
		}
	}
	return s
}

// bequeath gives the variants of names that ended to other subscriptions to the names: the
// client keeps a variant as long as it matches one of them, and has to be told when it is gone.
func (s *sentVariants) bequeath(names *nameIndex) {
	if s == nil {
		return
	}
	if names.len() == 0 {
		s.surplus = nil // there is nothing that they match
	}
	if len(s.left) == 0 {
		return
	}
	left := s.left
	s.left = nil
	subs := make(map[string][]*nameSub)
	for _, v := range left {
		subs[v.Name] = nil
	}
	for sub := range names.all() {
		name := sub.shown()
		if others, ok := subs[name]; ok {
			subs[name] = append(others, sub)
		}
	}
	for _, v := range left {
		if s.holders[v] == 0 {
			s.inherit(v, heirs(v, subs[v.Name]))
		}
	}
}

// heirs returns the subscriptions to its name that a variant matches.
func heirs(v wire.Variant, subs []*nameSub) []*nameSub {
	if len(subs) == 0 {
		return nil
	}
	c, err := keyer.ParseConstraints([]byte(v.Constraints))
	if err != nil {
		return nil // it was parsed when it came
	}
	return slices.DeleteFunc(slices.Clone(subs), func(sub *nameSub) bool { return !c.Match(wire.Parameters(sub.spelling)) })
}

// inherit gives a variant to those that were sent nothing so far: they have it until they are.
// If all were, it is removed.
func (s *sentVariants) inherit(v wire.Variant, heirs []*nameSub) {
	given := false
	for _, sub := range heirs {
		if _, has := s.by[sub]; has {
			continue
		}
		s.swap(sub, v)
		sub.holds, given = true, true
		if sub.known() {
			sub.makeDue()
		}
	}
	if !given && len(heirs) > 0 {
		s.surplus = append(s.surplus, v)
	}
}
