package rules

import (
	"encoding/hex"
	"slices"
)

// layBases works out the basis of each rule. The matches of those before it are part of
// it, since a client may leave a scope by any of them.
func (s *Set) layBases() {
	matches := ""
	for _, r := range s.rules {
		if r.match.isNever() {
			continue // switched off: nobody comes by it
		}
		matches = s.basisOf(matches, r.match)
		r.basis = s.basisOf(matches, slices.Concat(r.scope, r.node)...)
		if r.first {
			r.basis = s.basisOf(r.basis + " first")
		}
	}
	s.basis = matches
}

// basisOf hashes expressions, each with its field, and the default upstream for those
// that look at it, on top of what was hashed before.
func (s *Set) basisOf(before string, of ...*expression) string {
	h := newScopeHash()
	h.list([]string{before})
	for _, x := range of {
		h.list([]string{x.field, x.source})
		if x.looksAt(varUpstream) {
			h.list([]string{s.upstream})
		}
	}
	const enough = 16 // digits: a rule sees a handful of them in its life
	return hex.EncodeToString(h.Sum(nil))[:enough]
}
