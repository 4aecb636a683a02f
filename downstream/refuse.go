package downstream

import (
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// Names that the relay answers itself (LOC-4, NAME-1, OPS-5) are told as resource
// errors (ERR-1), beside removed_resources in the incremental form, and beside their
// absence in the other. There requests repeat all names: what was refused is remembered,
// and told once, until the client does not name it any more.

// maxNamed times the limit is how many names a client may say, of which those beyond
// the limit are refused one by one (ABS-4). Beyond that answers cost more memory than the
// requests did: names are refused without a word, counted only, and the rest goes on.
const maxNamed = 2

// answerable is how many refused names a client is answered to, where so many are
// remembered.
func (s *Server) answerable(remembered int) int {
	most := s.limits.Load().MaxSubscriptions
	if most == 0 {
		return math.MaxInt
	}
	return max(0, maxNamed*most-remembered)
}

// answers is answerable for a stream, as it is now.
func (st *stream) answers() int {
	remembered := 0
	for _, t := range st.types {
		remembered += len(t.listed.denied) + len(t.unserved)
	}
	return st.server.answerable(remembered)
}

// sayable reports whether a name goes into a response of its own: one that is larger is
// not answered to, since the response would end the stream (RES-9, ABS-4).
func (s *Server) sayable(e *wire.ResourceError) bool {
	return 2*len(e.Name)+len(e.Message)+errorOverhead <= s.limits.Load().MaxMessageSize-headerRoom
}

// beyond is why a name is refused that would be one too many.
func (s *Server) beyond(where string) *refusedError {
	return &refusedError{codes.ResourceExhausted, fmt.Errorf("at most %d subscriptions %s are served", s.limits.Load().MaxSubscriptions, where)}
}

// quota is what a request may add to a stream's subscriptions (OPS-5). The nil one has
// no end.
type quota struct {
	stream  *stream
	typeURL string
	left    int
	added   map[string]bool
}

// quota gives none to requests that cannot pass the limit, which are nearly all.
func (st *stream) quota(t *typeState, subscribe, unsubscribe []string) *quota {
	most, total := st.server.limits.Load().MaxSubscriptions, 0
	for _, t := range st.types {
		total += t.subscriptions
	}
	if most == 0 || total+len(subscribe) <= most {
		return nil
	}
	q := &quota{stream: st, typeURL: t.url, left: most - total, added: make(map[string]bool)}
	gone := make(map[string]bool, len(unsubscribe))
	for _, name := range unsubscribe {
		if !gone[name] && st.subscribed(t.url, name) {
			q.left++
		}
		gone[name] = true
	}
	return q
}

// admits reports whether a name may be subscribed to: again always.
func (q *quota) admits(spelling string) bool {
	switch {
	case q == nil || q.added[spelling] || q.stream.subscribed(q.typeURL, spelling):
		return true
	case q.left <= 0:
		return false
	}
	q.left--
	q.added[spelling] = true
	return true
}

// refuse notes a name that the relay answers itself.
func (st *stream) refuse(t *typeState, spelling string, r *refusedError) {
	first := len(t.refused) == 0 // one line tells of all that are refused together
	e := wire.ResourceError{Name: spelling, Code: r.code, Message: r.Error()}
	if _, before := t.listed.denied[spelling]; before {
		return
	}
	if st.answerable == 0 || !st.server.sayable(&e) {
		st.server.observer.Refused(t.url, r.code)
		if !t.mute {
			t.mute = true
			st.log(slog.LevelWarn).Warn("refused subscriptions without an answer", "type", t.url,
				"name", clip(wire.LocatedName(spelling)), "reason", r.Error())
		}
		return
	}
	st.answerable--
	if st.variant.form == stateForm {
		st.deny(t, spelling, r.code)
		first = first && len(t.listed.denied) == 1
	} else if r.code == codes.NotFound {
		if t.unserved == nil {
			t.unserved = make(map[string]struct{})
		}
		t.unserved[spelling] = struct{}{}
	}
	st.server.observer.Refused(t.url, r.code)
	if first {
		st.log(slog.LevelWarn).Warn("refused a subscription", "type", t.url, "name", clip(wire.LocatedName(spelling)), "reason", r.Error())
	}
	t.refused = append(t.refused, e)
}

// deny remembers a name of a state-of-the-world client that the relay does not serve. A
// list of a full-state type that lacks it is due.
func (st *stream) deny(t *typeState, spelling string, code codes.Code) {
	if t.listed.denied == nil {
		t.listed.denied = make(map[string]codes.Code)
	}
	t.listed.denied[spelling] = code
	t.listed.missing = st.server.config.FullState[t.url]
}

// tryAgain reports whether a name is looked at anew that was refused: what was one too
// many may fit now.
func (t *typeState) tryAgain(spelling string) bool {
	code, denied := t.listed.denied[spelling]
	return !denied || code == codes.ResourceExhausted
}

// admitted forgets that a name was refused, and pardon does so of all that a client does
// not name any more. What was not told yet needs no word then: untell, once for all of a
// request.
func (t *typeState) admitted(spelling string) (refusedBefore bool) {
	if _, refusedBefore = t.listed.denied[spelling]; refusedBefore {
		delete(t.listed.denied, spelling)
	}
	return refusedBefore
}

func (t *typeState) pardon(wanted map[string]bool) {
	before := len(t.listed.denied)
	maps.DeleteFunc(t.listed.denied, func(name string, _ codes.Code) bool { return !wanted[name] })
	if len(t.listed.denied) < before {
		t.untell()
	}
}

func (t *typeState) untell() {
	t.refused = slices.DeleteFunc(t.refused, func(e wire.ResourceError) bool {
		_, denied := t.listed.denied[e.Name]
		return !denied
	})
}

// errorOverhead is what an error takes in a response beyond its name and message:
// tags, lengths and the code.
const errorOverhead = 32

// fits reports whether an answer to a refused name fits into a response (RES-9), which
// holds one at least: some says that it does.
func (st *stream) fits(b *cache.Batch, e *wire.ResourceError, some bool) bool {
	size := b.Body.Size() + 2*len(e.Name) + len(e.Message) + errorOverhead
	return !some || size <= st.server.limits.Load().MaxMessageSize-headerRoom
}

// sendRefused answers the names that the relay itself answers: as not existing,
// and why (LOC-4, ERR-1). It waits for no ACK: what is kept for a client that
// never sends one must not grow with its requests.
func (st *stream) sendRefused() error {
	if st.variant.form == stateForm {
		return nil // attach, sendDenied
	}
	for _, t := range st.types {
		for len(t.refused) > 0 {
			if err := st.send(st.refusals(t)); err != nil {
				return err
			}
		}
	}
	return nil
}

// refusals takes as many of the refused names as go into one response (RES-9). One with
// dynamic parameters is not said to be removed: that would take away what the client has
// under the name without them, or with others (DYN-1).
func (st *stream) refusals(t *typeState) *cache.Batch {
	b := &cache.Batch{TypeURL: t.url}
	said, failed := make(map[string]bool), make(map[string]bool)
	for i, e := range t.refused {
		if said[e.Name] { // RES-4
			continue
		}
		if !st.fits(b, &e, len(said) > 0) {
			t.refused = t.refused[i:]
			return b
		}
		said[e.Name] = true
		parameters, name := wire.CutLocator(e.Name)
		if parameters == "" {
			b.Body.Remove(name)
		}
		if !failed[name] {
			failed[name] = true
			b.Body.AddError(e, name)
		}
	}
	t.refused = nil
	return b
}

// attach puts errors of refused names into a state-of-the-world response, as many as fit
// into it. One of a full-state type must hold everything, so errors go with a list.
func (st *stream) attach(t *typeState, b *cache.Batch) {
	for i := range t.refused {
		if !st.fits(b, &t.refused[i], i > 0) {
			t.refused = t.refused[i:]
			t.listed.unsaid = st.server.config.FullState[t.url]
			return
		}
		b.Body.AddStateError(t.refused[i], wire.LocatedName(t.refused[i].Name))
	}
	t.refused, t.listed.unsaid = nil, false
}

// sendDenied tells state-of-the-world clients of the refused names that nothing was
// sent with. Of full-state types that needs a list; what a list had no room for is due
// with another one.
func (st *stream) sendDenied() error {
	for _, t := range st.types {
		switch {
		case st.variant.form != stateForm || len(t.refused) == 0:
		case t.listed.unsaid:
			t.listed.unsaid = false
			ch := st.newChange()
			ch.relist(st, t)
			st.update(t, ch)
		case st.server.config.FullState[t.url], st.acksOf(t.url) == cache.Awaited:
		default:
			if err := st.send(&cache.Batch{
				TypeURL: t.url, Rank: cache.RankOf(t.url), SystemVersion: cache.StateVersion(st.stores(), t.url),
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendEmptyLists sends lists that have nothing in them but the lack of names that
// the relay does not serve, where no store has anything to say of the type.
func (st *stream) sendEmptyLists() error {
	for _, t := range st.types {
		if !t.listed.missing {
			continue
		}
		t.listed.missing = false
		if t.subscriptions > 0 {
			continue // Change.Relist
		}
		for again := true; again; again = t.listed.unsaid {
			if err := st.send(&cache.Batch{TypeURL: t.url, Rank: cache.RankOf(t.url), SystemVersion: cache.EmptyVersion()}); err != nil {
				return err
			}
		}
	}
	return nil
}
