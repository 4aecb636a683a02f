package resolve

import (
	"fmt"
	"slices"
	"strings"

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
	followed string              // the upstream whose redirect led there, "" if none did
}

// search is one look for a name.
type search struct {
	node    *node
	typeURL string   // of what is looked for
	reading bool     // a directory, whose redirects only the relay can follow
	trail   []string // the places passed by, to find loops and to tell of them (LOC-1)
	hops    int      // redirects followed
	passed  []*lead  // the leads that the result depends on

	serving  map[string]int // see node
	followed string         // see sight
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

// find looks for a name at the one of its places that serves.
func (s *search) find(name keyer.Name) sight {
	places := s.node.resolver.placesOf(name)
	if len(places) == 0 {
		return s.fail(FailureNoSource, codes.NotFound, "no upstream is configured for the authority %q", short(name.Authority))
	}
	serves := s.choose(name, places)
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
func (s *search) choose(name keyer.Name, places []place) (serves int) {
	if len(places) == 1 {
		return 0
	}
	n, key := s.node, name.Resolved()
	if serves, chosen := s.serving[key]; chosen { // the redirects lead back to it
		return serves
	}
	was := n.serving[key]
	if was >= len(places) { // there were more, before Renew
		was = 0
	}
	serves = choose(len(places), was, func(i int) (reach, bool) {
		l := s.pass(places[i])
		if l == nil {
			return gone, false
		}
		return l.tap.reach, l.state != unknown
	})
	if s.serving == nil {
		s.serving = make(map[string]int)
	}
	s.serving[key] = serves
	if serves != was {
		n.resolver.switched(key, places, was, serves)
	}
	return serves
}

// pass gives the lead of a place, which the result depends on; nil if its upstream
// cannot be asked now.
func (s *search) pass(p place) *lead {
	t := s.node.resolver.tapOf(p.upstream)
	if t == nil {
		return nil
	}
	key := leadKey{s.typeURL, p.name.Canonical()}
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
	id := p.name.Resolved()
	loop := slices.Contains(s.trail, id)
	s.trail = append(s.trail, id)
	switch {
	case loop:
		return s.fail(FailureLoop, codes.FailedPrecondition, "the redirects lead back: %s", s.way())
	case p.name.Entry() != "":
		return s.entry(p)
	default:
		return s.content(p)
	}
}

// content is what stands at a place, or where a redirect there leads.
func (s *search) content(p place) sight {
	l := s.pass(p)
	if l == nil {
		return sight{}
	}
	if isRedirect(l.res) && (p.upstream.Follow || s.reading) {
		return s.follow(p, l.res)
	}
	return sight{state: l.state, res: l.res, err: l.err, late: l.late, from: l, at: l.serial, followed: s.followed}
}

// entry is an inline entry of the directory at a place (LIST-4).
func (s *search) entry(p place) sight {
	typeURL, reading := s.typeURL, s.reading
	s.typeURL, s.reading = typePrefix+p.name.Type, true
	seen := s.content(p)
	s.typeURL, s.reading = typeURL, reading
	if seen.res == nil {
		return seen // what is true of the directory is true of the entry
	}
	entry, err := seen.from.entry(p.name.Entry())
	switch {
	case err != nil:
		return s.fail(FailureDirectory, codes.FailedPrecondition, "the list collection %s: %v", short(p.name.Canonical()), err)
	case entry == nil:
		return sight{state: absent, from: seen.from, at: seen.at}
	case isRedirect(entry) && (p.upstream.Follow || s.reading):
		return s.follow(p, entry)
	case entry.TypeURL() != s.typeURL && !isRedirect(entry):
		return s.fail(FailureEntryType, codes.FailedPrecondition, "the entry %s is of type %q, expected %q",
			short(p.name.Resolved()), short(entry.TypeURL()), short(s.typeURL))
	}
	seen.res = entry
	return seen
}

// follow goes where a redirect leads (LOC-1).
func (s *search) follow(p place, redirect *wire.Resource) sight {
	target, err := targetOf(redirect)
	switch {
	case err != nil:
		return s.fail(FailureTarget, codes.FailedPrecondition, "the redirect %s leads nowhere: %v", s.way(), err)
	case target.IsGlob() || typePrefix+target.ResourceType() != s.typeURL:
		return s.fail(FailureTarget, codes.FailedPrecondition, "the redirect %s leads to %s, which is not of type %q",
			s.way(), short(target.Resolved()), short(s.typeURL))
	case s.hops == s.node.resolver.settings.MaxRedirects:
		return s.fail(FailureTooMany, codes.FailedPrecondition, "more than %d redirects: %s → %s", s.hops, s.way(), short(target.Resolved()))
	}
	s.hops++
	if s.followed == "" {
		s.followed = p.upstream.Name
	}
	return s.find(target)
}

func (s *search) fail(reason Failure, code codes.Code, format string, args ...any) sight {
	return sight{
		state: failed, reason: reason,
		err: &wire.ResourceError{Code: code, Message: fmt.Sprintf(format, args...)},
	}
}

// way tells the places passed by.
func (s *search) way() string {
	names := make([]string, 0, len(s.trail))
	for _, name := range s.trail {
		names = append(names, short(name))
	}
	return strings.Join(names, " → ")
}

// maxShown is how much of a name an error's text holds: the way may be long, and goes to
// every client that asks.
const maxShown = 256

func short(name string) string {
	if len(name) <= maxShown {
		return name
	}
	return name[:maxShown] + "…"
}
