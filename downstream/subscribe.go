package downstream

import (
	"log/slog"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// subscribe changes the subscriptions to one type.
func (st *stream) subscribe(t *typeState, subscribe, unsubscribe []string, versions wire.Versions) error {
	st.calm = false
	ch := newChange(st.routing.routes, t)
	if err := st.locateAll(ch, subscribe, unsubscribe); err != nil {
		return err
	}
	return st.carryOut(ch, unsubscribe, &versions)
}

// carryOut ends subscriptions too, and changes the places. It is apart from subscribe: each
// needs much stack, and one would be under the other.
func (st *stream) carryOut(ch *change, unsubscribe []string, versions *wire.Versions) error {
	t := ch.t
	for _, spelling := range unsubscribe {
		delete(t.refusals.names, spelling)
		store, name, err := locate(ch.routes, t.url, spelling)
		if unserved(err) {
			continue // the relay refused the name when the client subscribed to it (SUB-7)
		}
		if err != nil {
			return err
		}
		sub := ch.in(store)
		sub.Unsubscribe = append(sub.Unsubscribe, name)
	}
	if versions.Len() > 0 {
		t.denied(ch, versions)
		t.later = ch.later(*versions, st.shared.limits.Load().left(0))
		ch.hold(*versions)
	} else if len(t.later) > 0 {
		ch.holdLater(t.later)
	}
	if t.refusals.missing {
		ch.relist(st.subscriber.Places())
	}
	st.update(ch)
	if len(unsubscribe) > 0 && (t.status.Subscriptions == 0 || !t.full) {
		t.reconsider(st.shared.observer, st.subscriber)
	}
	return nil
}

// locateAll adds to a change the names that the client subscribes to. unsubscribe makes room for
// them.
func (st *stream) locateAll(ch *change, subscribe, unsubscribe []string) error {
	t, l := ch.t, st.shared.limits.Load()
	subscriptions, refused := st.types.count()
	quota := newQuota(l.left(subscriptions), st.subscriber.Places(), t.url, subscribe, unsubscribe)
	st.types.answerable = l.answerable(refused)
	for _, spelling := range subscribe {
		store, name, err := st.route(t, spelling, quota)
		if r := refusal(err); r != nil {
			st.refuse(t, spelling, r)
			continue
		}
		if err != nil {
			return err
		}
		delete(t.refusals.names, spelling)
		ch.subscribe(store, name, len(subscribe))
	}
	if st.variant.form == stateForm {
		t.refusals.unsay()
	}
	return nil
}

// route returns the store of a name that the client subscribes to.
func (st *stream) route(t *typeState, spelling string, quota *quota) (*cache.Store, cache.Name, error) {
	if err := tooLong(spelling, st.shared.limits.Load().PerClient.NameBytes); err != nil { // ABS-4
		st.shared.observer.Limited(LimitName)
		return nil, cache.Name{}, err
	}
	store, name, err := locate(st.routing.routes, t.url, spelling)
	form := st.subscriber.Form()
	switch {
	case crowded(err) != nil:
		st.shared.observer.Limited(crowded(err).limit)
	case err != nil:
	case wire.IsLocator(spelling) && form.State && !form.Wrapped:
		err = &refusedError{codes.InvalidArgument, errUnwrapped}
	case !quota.admits(spelling):
		st.shared.observer.Limited(LimitSubscriptions)
		err = st.shared.limits.Load().surplus("on one stream")
	case spelling == cache.Wildcard && t.unnamed:
		name.Spelling = ""
	}
	return store, name, err
}

// refuse keeps the answer to a name that the relay refuses.
func (st *stream) refuse(t *typeState, spelling string, r *refusedError) {
	if _, before := t.refusals.names[spelling]; before && st.variant.form == stateForm {
		return
	}
	st.shared.observer.Refused(t.url, r.code)
	e := &wire.ResourceError{Name: spelling, Code: r.code, Message: r.Error()}
	name := clip(wire.LocatedName(spelling))
	switch {
	case st.types.answerable > 0 && fits(0, e, st.shared.limits.Load().room()):
		st.types.answerable--
		if t.refusals.add(e, st.variant.form, t.full) {
			st.log(slog.LevelWarn).Warn("refused a subscription", "type", t.url, "name", name, "reason", e.Message)
		}
	case !t.refusals.silent: // a larger answer than a response would end the stream (RES-9, ABS-4)
		t.refusals.silent = true
		st.log(slog.LevelWarn).Warn("refused subscriptions without an answer", "type", t.url, "name", name, "reason", e.Message)
	}
}

// update carries a change out, store by store.
func (st *stream) update(ch *change) {
	url, status := ch.t.url, &ch.t.status
	for _, s := range ch.order() {
		place := st.subscriber.Join(s)
		was := place.Watches(url)
		place.Update(ch.changes[s])
		delta, scope := place.Watches(url)-was, st.routing.routes.Scope()
		st.standing.edit(func() {
			status.Subscriptions += delta
			st.standing.scope = scope
		})
		st.shared.observer.Subscribed(url, delta)
	}
}

// quota limits the names that a request adds to a stream's subscriptions (OPS-5). nil has no limit.
type quota struct {
	places  []*delivery.Place
	typeURL string
	left    int
	added   map[string]bool
}

// newQuota returns the quota of a request for a stream that may have so many names more. It is
// nil if the request cannot pass the limit, as nearly all requests.
func newQuota(left int, places []*delivery.Place, typeURL string, subscribe, unsubscribe []string) *quota {
	if len(subscribe) <= left {
		return nil
	}
	q := &quota{places: places, typeURL: typeURL, left: left, added: make(map[string]bool)}
	ended := make(map[string]bool, len(unsubscribe))
	for _, name := range unsubscribe {
		if !ended[name] && storeOf(places, typeURL, name) != nil {
			q.left++
		}
		ended[name] = true
	}
	return q
}

// admits reports whether the client may subscribe to a name: always to one that it subscribes to.
func (q *quota) admits(spelling string) bool {
	switch {
	case q == nil || q.added[spelling] || storeOf(q.places, q.typeURL, spelling) != nil:
		return true
	case q.left <= 0:
		return false
	}
	q.left--
	q.added[spelling] = true
	return true
}

// storeOf returns the store where the client subscribes to a name, to the letter; nil if there is none.
func storeOf(places []*delivery.Place, typeURL, spelling string) *cache.Store {
	for _, place := range places {
		if place.Subscribed(typeURL, spelling) {
			return place.Store()
		}
	}
	return nil
}
