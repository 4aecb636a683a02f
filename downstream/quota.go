package downstream

import (
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"google.golang.org/grpc/codes"
)

// nameQuota limits the names that a request adds to a stream's subscriptions (OPS-5). nil has no limit.
type nameQuota struct {
	limits  *Limits
	where   string // the limits hold, for people to read
	places  []*delivery.Place
	typeURL string
	left    allowance
	added   map[string]bool
	refused map[Limit]*refusedError // one for all names
}

// newNameQuota returns the quota of a request for a stream that may have so much more. It is
// nil if the request cannot pass the limit, as nearly all requests.
func newNameQuota(l *Limits, left allowance, where string, places []*delivery.Place, typeURL string, subscribe, unsubscribe []string) *nameQuota {
	if left.has(subscribe) {
		return nil
	}
	q := &nameQuota{
		limits: l, where: where, places: places, typeURL: typeURL, left: left,
		added: make(map[string]bool), refused: make(map[Limit]*refusedError),
	}
	ended := make(map[string]bool, len(unsubscribe))
	for _, name := range unsubscribe {
		if !ended[name] && storeOf(places, typeURL, name) != nil {
			q.left.add(1, bytesOf(name))
		}
		ended[name] = true
	}
	return q
}

// bytesOf returns how many bytes a name counts with. "*" takes none (delivery.Place.NamesBytes).
func bytesOf(name string) int {
	if name == cache.Wildcard {
		return 0
	}
	return len(name)
}

// check returns why a name is refused that has no room, and counts it.
func (q *nameQuota) check(spelling string, o Observer) error {
	limit := q.admits(spelling)
	if limit == "" {
		return nil
	}
	o.Limited(limit)
	return q.refusal(limit)
}

// admits returns the limit that is in the way of a name; "" if the client may subscribe to it. It always
// may to one that it subscribes to.
func (q *nameQuota) admits(spelling string) Limit {
	switch {
	case q == nil || q.added[spelling] || storeOf(q.places, q.typeURL, spelling) != nil:
		return ""
	case q.left.names <= 0:
		return LimitSubscriptions
	case q.left.bytes < bytesOf(spelling):
		return LimitNames
	case !q.left.spend(bytesOf(spelling)):
		return LimitNamesTotal
	}
	q.added[spelling] = true
	return ""
}

// refusal returns why a name beyond a limit is refused.
func (q *nameQuota) refusal(limit Limit) *refusedError {
	r := q.refused[limit]
	if r == nil {
		switch limit {
		case LimitNamesTotal: // nothing is known of the resource, which another client may be served
			r = &refusedError{codes.Unavailable, errNamesTotal}
		case LimitNames:
			r = &refusedError{codes.ResourceExhausted, fmt.Errorf("names of at most %d bytes in all %s are served", q.limits.PerClient.NamesBytes, q.where)}
		default:
			r = &refusedError{codes.ResourceExhausted, fmt.Errorf("at most %d subscriptions %s are served", q.limits.PerClient.Subscriptions, q.where)}
		}
		q.refused[limit] = r
	}
	return r
}

var errNamesTotal = errors.New("clients subscribe to as many names as the relay has memory for, or this client's address or identity to its share (limits.names_total, limits.share)")

// storeOf returns the store where the client subscribes to a name, to the letter; nil if there is none.
func storeOf(places []*delivery.Place, typeURL, spelling string) *cache.Store {
	for _, place := range places {
		if place.Subscribed(typeURL, spelling) {
			return place.Store()
		}
	}
	return nil
}
