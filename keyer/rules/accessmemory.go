package rules

import (
	"errors"
	"hash/maphash"
	"slices"
)

// maxRemembered bounds how many names of a client have a remembered decision: some 2 MiB.
const maxRemembered = 1 << 16

// maxSaid bounds how many decisions are told apart that names have in common: a rule that fails says why.
const maxSaid = 256

// remembered are decisions about names. A stream has the same names judged with each change, for as
// long as it is open: what takes more work than one evaluation may take without limit would use up the
// work for one client (OPS-5), and all names would be denied then. So such work is done once for each
// name. Once the work is used up, one fact is kept: all further names are denied, and stay so. They must not come and go.
type remembered struct {
	names  map[nameKey]uint16 // indexes of said
	said   []AccessDecision
	usedUp *AccessDecision // about all names that have none; nil: there is work left
}

// nameKey stands for a type and a name.
type nameKey [2]uint64

var nameSeeds = [len(nameKey{})]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func nameKeyOf(typeURL, name string) (k nameKey) {
	for i, seed := range nameSeeds {
		k[i] = maphash.Comparable(seed, [2]string{typeURL, name})
	}
	return k
}

// of gives what is known of a name.
func (m *remembered) of(typeURL, name string) (d AccessDecision, known bool) {
	if len(m.names) > 0 {
		if i, ok := m.names[nameKeyOf(typeURL, name)]; ok {
			return m.said[i], true
		}
	}
	if m.usedUp != nil {
		return *m.usedUp, true
	}
	return AccessDecision{}, false
}

// note keeps a decision that took more work than it may take without limit, or for which no work was left.
func (m *remembered) note(typeURL, name string, d AccessDecision, failure *FailedError, work uint64, over bool) {
	if over && failure != nil && errors.Is(failure, errTooMuch) {
		m.usedUp = &d
		return
	}
	if work <= effortPerEval || len(m.names) >= maxRemembered {
		return
	}
	i := slices.Index(m.said, d)
	if i < 0 {
		if i = len(m.said); i == maxSaid {
			return
		}
		m.said = append(m.said, d)
	}
	if m.names == nil {
		m.names = make(map[nameKey]uint16)
	}
	m.names[nameKeyOf(typeURL, name)] = uint16(i)
}

// forget forgets a name.
func (m *remembered) forget(typeURL, name string) {
	if len(m.names) > 0 {
		delete(m.names, nameKeyOf(typeURL, name))
	}
}
