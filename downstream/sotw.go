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
	named   bool   // some request named something: an empty one is no wildcard any more (SUB-2)
	again   bool   // it was asked again while a response was on its way (WARM-1)
	missing bool   // a list is due that nothing in the cache would bring
	unsaid  bool   // a list had no room for all errors of refused names
	last    uint64 // hash of the names of the last request
	// VersionInfo of the first request (RES-2, ACK-5).
	presented string
	// Names that the relay does not serve: in a list of a full-state type they are
	// known to be missing. All requests repeat them.
	denied map[string]codes.Code
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
	t.unnamed = len(r.names) == 0
	last := st.server.hash(names)
	same := last == t.listed.last
	t.listed.last = last
	if same && !again {
		return nil, nil
	}
	want := make(map[string]bool, len(names))
	for _, name := range names {
		if !want[name] && t.tryAgain(name) && (again || !st.subscribed(t.url, name)) {
			subscribe = append(subscribe, name)
		}
		want[name] = true
	}
	for _, c := range st.stores() {
		for name := range c.Subscriptions(t.url) {
			if !want[name] {
				unsubscribe = append(unsubscribe, name)
			}
		}
	}
	t.pardon(want)
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
	for _, c := range st.stores() {
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
