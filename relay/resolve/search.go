package resolve

import (
	"fmt"
	"slices"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

// sight is what a look for a name came to.
type sight struct {
	state    state
	res      *wire.Resource
	err      *wire.ResourceError // failed; found: told beside the content (ERR-1)
	reason   Failure             // of err, if the resolver itself says so
	late     bool                // unknown, and nobody should wait for it any longer
	harmless bool                // err takes nothing away and replaces nothing (LOC-5)
	from     *lead               // that says so; nil: the resolver itself does
	at       uint64              // from.serial
}

// search is one look for a node's name.
type search struct {
	node   *node
	passed []*lead // the leads that the result depends on
}

// place is one of those where a resource is to be had.
type place struct {
	name     keyer.Name // without alternative
	upstream Upstream
}

// placesOf lists where a name is to be had, in order of preference. Authorities that
// nobody claims are left out.
func (r *Resolver) placesOf(name keyer.Name) []place {
	var places []place
	for n := range name.Alternatives() {
		if u, ok := r.config.Sources.Upstream(n.Authority); ok {
			places = append(places, place{n, u})
		}
	}
	return places
}

// find looks for the name at the one of its places that serves.
func (s *search) find() sight {
	n := s.node
	places := n.resolver.placesOf(n.name)
	if len(places) == 0 {
		n.serves, n.choice = 0, false
		return fail(FailureNoSource, codes.NotFound, "no upstream is configured for the authority %q", short(n.name.Authority))
	}
	s.choose(places)
	serves := n.serves
	seen := s.look(places[serves])
	if serves > 0 && (seen.state == absent || (seen.state == failed && !seen.err.Transient())) {
		// Not existing is not unreachable, and nobody can ask the first place (LOC-5).
		return sight{state: failed, harmless: true, from: seen.from, at: seen.at, err: &wire.ResourceError{
			Code: codes.Unavailable,
			Message: fmt.Sprintf("the upstream of the authority %q is unreachable, and the alternative %s has nothing",
				short(places[0].name.Authority), short(places[serves].name.Resolved())),
		}}
	}
	return seen
}

// choose says which place serves, and passes by those up to it (LOC-5).
func (s *search) choose(places []place) {
	n := s.node
	was := n.serves
	if was >= len(places) { // there were more, before Renew
		was = 0
	}
	n.serves, n.choice = 0, len(places) > 1
	if !n.choice {
		return
	}
	n.serves = choose(len(places), was, func(i int) (reach, bool) {
		l := s.pass(places[i])
		if l == nil {
			return gone, false
		}
		return l.tap.reach, l.state != unknown
	})
	if n.serves != was {
		n.resolver.switched(n.key, places, was, n.serves)
	}
}

// pass gives the lead of a place, which the result depends on; nil if its upstream
// cannot be asked now.
func (s *search) pass(p place) *lead {
	t := s.node.resolver.tapOf(p.upstream)
	if t == nil {
		return nil
	}
	key := leadKey{s.node.typeURL, p.name.Canonical()}
	if p.name.Entry() != "" {
		key.typeURL = typePrefix + p.name.Type // a directory's, whatever is in it
	}
	l := t.lead(key, s.node)
	if !slices.Contains(s.passed, l) {
		s.passed = append(s.passed, l)
	}
	return l
}

// look looks at one place.
func (s *search) look(p place) sight {
	l := s.pass(p)
	if l == nil {
		return sight{}
	}
	seen := sight{state: l.state, res: l.res, err: l.err, late: l.late, from: l, at: l.serial}
	if p.name.Entry() == "" || seen.res == nil { // what is true of a directory is true of its entries
		return seen
	}
	return s.entry(p, seen)
}

// entry is an inline entry of the directory that was seen at a place (LIST-4).
func (s *search) entry(p place, seen sight) sight {
	typeURL := s.node.typeURL
	if seen.res.TypeURL() == wire.RedirectTypeURL {
		return fail(FailureDirectory, codes.FailedPrecondition,
			"the list collection %s is a redirect, which clients follow: ask for the entry under the redirect's target", short(p.name.Canonical()))
	}
	entry, err := seen.from.entry(p.name.Entry())
	switch {
	case err != nil:
		return fail(FailureDirectory, codes.FailedPrecondition, "the list collection %s: %v", short(p.name.Canonical()), err)
	case entry == nil:
		return sight{state: absent, from: seen.from, at: seen.at}
	case entry.TypeURL() != typeURL && entry.TypeURL() != wire.RedirectTypeURL:
		return fail(FailureEntryType, codes.FailedPrecondition, "the entry %s is of type %q, expected %q",
			short(p.name.Resolved()), short(entry.TypeURL()), short(typeURL))
	}
	seen.res = entry
	return seen
}

func fail(reason Failure, code codes.Code, format string, args ...any) sight {
	return sight{
		state: failed, reason: reason,
		err: &wire.ResourceError{Code: code, Message: fmt.Sprintf(format, args...)},
	}
}

// maxShown is how much of a name an error's text holds: it goes to every client that asks.
const maxShown = 256

func short(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return name[:maxShown] + "…"
}
