package plane

import (
	"maps"
	"slices"
)

// subscription is what one stream asked for of one type, and what it was sent. The
// plane's mutex guards it.
type subscription struct {
	typeURL string
	names   map[string]bool // without the wildcard
	star    bool            // the wildcard, in either form
	named   bool            // a request named something (SUB-2)

	known map[string]string // version sent, or presented, by name
	owed  map[string]bool   // names that must be answered, changed or not

	nonce       string // of the last response
	outstanding bool   // the last response has no answer yet
	first       bool   // nothing was sent yet: the wildcard is owed an answer
	delayed     bool   // a timer will send what is due
	due         bool   // the timer has run out
	clusters    bool   // Endpoints: Clusters were sent since these were sent
}

func newSubscription(typeURL string) *subscription {
	return &subscription{
		typeURL: typeURL, names: make(map[string]bool), known: make(map[string]string), owed: make(map[string]bool),
		first: true,
	}
}

// covers reports whether the subscription means an entry.
func (s *subscription) covers(e *entry) bool {
	return s.star && !e.Unlisted && (e.Strays || !isXDSTP(e.Name)) || s.means(e)
}

// means reports whether the subscription has the entry by a name or a glob.
func (s *subscription) means(e *entry) bool {
	if s.names[key(e.Name)] || slices.ContainsFunc(e.Aliases, func(a string) bool { return s.names[key(a)] }) {
		return true
	}
	glob := globOf(e.Name)
	return glob != "" && s.names[glob]
}

// owes reports whether the entry must be sent although it did not change.
func (s *subscription) owes(e *entry) bool {
	if len(s.owed) == 0 {
		return false
	}
	if s.owed[key(e.Name)] {
		return true
	}
	glob := globOf(e.Name)
	return glob != "" && s.owed[glob] || slices.ContainsFunc(e.Aliases, func(a string) bool { return s.owed[key(a)] })
}

// changed are the entries among covered that the stream lacks, or is owed.
func (s *subscription) changed(covered []*entry) []*entry {
	var all []*entry
	for _, e := range covered {
		if version, ok := s.known[e.Name]; !ok || version != e.Version || s.owes(e) {
			all = append(all, e)
		}
	}
	return all
}

// gone are the names that the stream has, and that are not among covered.
func (s *subscription) gone(covered []*entry) []string {
	left := maps.Clone(s.known)
	for _, e := range covered {
		delete(left, e.Name)
	}
	return slices.Sorted(maps.Keys(left))
}

// unanswered are the owed names that no covered entry answers.
func (s *subscription) unanswered(covered []*entry) []string {
	left := maps.Clone(s.owed)
	for _, e := range covered {
		delete(left, key(e.Name))
		delete(left, globOf(e.Name))
		for _, a := range e.Aliases {
			delete(left, key(a))
		}
	}
	return slices.Sorted(maps.Keys(left))
}
