package downstream

import (
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// A state-of-the-world request has all names that the client subscribes to. The stream works out
// the changes, and carries them out like those of an incremental request.

// stateChanges returns the names that a state-of-the-world request subscribes to and unsubscribes
// from. number is that of the response with the request's nonce. further says that the client
// acknowledged that response before.
func (st *stream) stateChanges(t *typeState, r *discoveryRequest, number uint64, further bool) (subscribe, unsubscribe []string) {
	again := t.listed.again || (further && st.asksAgain(t, r, min(number, t.flow.content)))
	if t.flow.sent != 0 && number != t.flow.sent {
		// STR-4, STR-6: the client is about to answer a later response. Its answer will have
		// the names that it subscribes to, but not that the client asked again.
		t.listed.again = again
		return nil, nil
	}
	t.listed.again = false
	names := r.names
	if len(names) > 0 {
		t.listed.named = true
	} else if !t.listed.named && t.full {
		names = []string{cache.Wildcard} // SUB-2, SUB-4
	}
	t.unnamed = len(r.names) == 0
	last := st.shared.hash(names)
	same := last == t.listed.last
	t.listed.last = last
	if same && !again {
		return nil, nil
	}
	return t.differences(st.subscriber.Places(), names, again)
}

// differences compares the names of a request with the subscriptions. If the client asked again,
// it subscribes to every name anew: the answer has everything that the request names.
func (t *typeState) differences(places []*delivery.Place, names []string, again bool) (subscribe, unsubscribe []string) {
	want := make(map[string]bool, len(names))
	for _, name := range names {
		if !want[name] && !t.refusals.has(name) && (again || storeOf(places, t.url, name) == nil) {
			subscribe = append(subscribe, name)
		}
		want[name] = true
	}
	for _, c := range places {
		for name := range c.Subscriptions(t.url) {
			if !want[name] {
				unsubscribe = append(unsubscribe, name)
			}
		}
	}
	t.refusals.keep(want)
	return subscribe, unsubscribe
}

// asksAgain reports whether a further request with the nonce of a response asks again for resources
// that the relay has sent (WARM-1). The first request with the nonce acknowledges the response, and
// may have no other meaning (STR-7). A client whose cluster or listener changed needs endpoints or
// routes again. It can only say so by repeating its request, perhaps with further names. So the
// client has a reason if the relay sent clusters or listeners after that response. On a stream of
// one type the relay cannot know, but there a request that changes nothing has no other meaning.
//
// A later response may be on its way to the client then, without the resources that it needs:
// the client's ACK of that response is answered instead.
func (st *stream) asksAgain(t *typeState, r *discoveryRequest, number uint64) bool {
	switch {
	case r.rejection != nil, t.full:
		return false
	case st.variant.aggregated():
		return st.types.parent > number
	}
	return st.shared.hash(r.names) == t.listed.last
}
