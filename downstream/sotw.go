package downstream

import (
	"hash/maphash"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
)

// A state-of-the-world request says all that the client subscribes to. What that
// changes is worked out here, and carried out like an incremental request.

// listed is what is kept of a type's state-of-the-world requests.
type listed struct {
	named bool   // some request named something: an empty one is no wildcard any more (SUB-2)
	last  uint64 // hash of the names of the last request
	again bool   // it was asked again while a response was on its way (WARM-1)
	// VersionInfo of the first request (RES-2, ACK-5).
	presented string
	// Names that the relay does not serve: in a list of a full-state type they are
	// known to be missing. All requests repeat them.
	denied  map[string]bool
	missing bool // a list is due that nothing in the cache would bring
}

// change works out what a request changes. again is set where it asks for what was
// sent before: then the answer is everything that it names.
func (st *stream) change(t *typeState, r *discoveryRequest, again bool) (subscribe, unsubscribe []string) {
	names := r.names
	if len(names) > 0 {
		t.listed.named = true
	} else if !t.listed.named && st.server.config.FullState[t.url] {
		names = []string{cache.Wildcard} // SUB-2, SUB-4
	}
	last := st.server.hash(names)
	same := last == t.listed.last
	t.listed.last = last
	if same && !again {
		return nil, nil
	}
	want := make(map[string]bool, len(names))
	for _, name := range names {
		if !want[name] && !t.listed.denied[name] && (again || !st.subscribed(t.url, name)) {
			subscribe = append(subscribe, name)
		}
		want[name] = true
	}
	for _, c := range st.order {
		for name := range c.Subscriptions(t.url) {
			if !want[name] {
				unsubscribe = append(unsubscribe, name)
			}
		}
	}
	for name := range t.listed.denied {
		if !want[name] {
			delete(t.listed.denied, name)
		}
	}
	return subscribe, unsubscribe
}

// asksAgain reports whether a further request with the nonce of a response, seen,
// asks for what was sent before (WARM-1). The first one with it acknowledges it, and
// has to say nothing else (STR-7). A client whose cluster or listener changed needs
// its endpoints or routes again, and cannot say so but by repeating itself; an
// addition may be in the same breath. So it has a reason if clusters or listeners
// were sent after that response. On a stream of one type nobody can know, but there
// a request that changes nothing has no other meaning.
//
// A later response may be on its way to the client then, without what it needs:
// its ACK is answered instead.
func (st *stream) asksAgain(t *typeState, r *discoveryRequest, seen uint64) bool {
	switch {
	case r.rejection != nil, st.server.config.FullState[t.url]:
		return false
	case st.variant.aggregated():
		return st.parent > seen
	}
	return st.server.hash(r.names) == t.listed.last
}

// subscribed reports whether the stream subscribes to a name as it is spelled.
func (st *stream) subscribed(typeURL, spelling string) bool {
	for _, c := range st.order {
		if c.Subscribed(typeURL, spelling) {
			return true
		}
	}
	return false
}

// hash tells lists of names apart. It depends on their order: a client that
// repeats itself does so to the letter.
func (s *Server) hash(names []string) uint64 {
	var h maphash.Hash
	h.SetSeed(s.seed)
	for _, name := range names {
		maphash.WriteComparable(&h, name)
	}
	return h.Sum64()
}

// deny notes a name that the relay does not serve. There is no word for that in
// this form, but its absence from a list.
func (st *stream) deny(t *typeState, spelling string) {
	if t.listed.denied == nil {
		t.listed.denied = make(map[string]bool)
	}
	t.listed.denied[spelling] = true
	t.listed.missing = st.server.config.FullState[t.url]
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
		if err := st.send(&cache.Batch{TypeURL: t.url, Rank: cache.RankOf(t.url), SystemVersion: cache.EmptyVersion()}); err != nil {
			return err
		}
	}
	return nil
}

// countRefused tells of a name that the relay answers itself.
func (st *stream) countRefused(t *typeState, spelling string, code codes.Code, reason string, first bool) {
	st.server.observer.Refused(t.url, code)
	if first { // one line tells of all that are refused together
		st.log.Warn("refused a subscription", "type", t.url, "name", clip(spelling), "reason", reason)
	}
}
