package downstream

import (
	"errors"
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
)

// subscribe changes the subscriptions to one type.
func (st *stream) subscribe(t *typeState, subscribe, unsubscribe []string, versions wire.Versions) error {
	st.calm = false
	ch := newChange(st.routing.routes, t)
	st.reserve(subscribe, &versions)
	left := st.left()
	if full := !left.has(subscribe); (full || t.url == xds.VirtualHostType) && st.letGo(full) {
		st.reserve(subscribe, &versions)
	}
	if err := st.locateAll(ch, subscribe, unsubscribe); err != nil {
		return err
	}
	err := st.carryOut(ch, unsubscribe, &versions)
	st.noteWeight()
	return err
}

// letGo ends subscriptions to virtual hosts that do not exist, and reports whether there were any: all if there is no room
// for other names, else those that nobody asked for lately. An Envoy never ends them, and the senders of its requests
// choose their names, so they must neither take the room of others nor stay upstream (RES-10).
//
//go:noinline
func (st *stream) letGo(full bool) bool {
	t, now := st.types.of(xds.VirtualHostType), time.Now().UnixNano()
	if t == nil || st.variant.form != deltaForm {
		return false
	}
	last, pause := &t.lookedOver, time.Minute
	if full {
		last, pause = &t.searched, time.Second
	}
	if now-*last < int64(pause) {
		return false
	}
	ended, access := 0, st.routing.routes.Access()
	for _, place := range st.subscriber.Places() {
		for _, spelling := range place.LetGo(t.url, full) {
			if ended++; access != nil {
				access.Forget(t.url, spelling)
			}
		}
	}
	if ended*8 < t.status.Subscriptions { // to look at all again soon would be in vain
		*last = now
	}
	st.standing.edit(func() { t.status.Subscriptions -= ended })
	st.shared.observer.Subscribed(t.url, -ended)
	return ended > 0
}

// carryOut ends subscriptions too, and changes the places. It is apart from subscribe: each
// needs much stack, and one would be under the other.
func (st *stream) carryOut(ch *change, unsubscribe []string, versions *wire.Versions) error {
	t := ch.t
	for _, spelling := range unsubscribe {
		t.refusals.forget(spelling)
		if access := ch.routes.Access(); access != nil {
			access.Forget(t.url, spelling)
		}
		store, name, err := find(ch.routes, t.url, spelling)
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
		t.later = ch.later(*versions, st.shared.limits.Load().left(0, 0, st.types.total))
		ch.hold(*versions)
	} else if len(t.later.names) > 0 {
		ch.holdLater(&t.later)
	}
	if t.refusals.missing {
		ch.relist(st.subscriber.Places())
	}
	st.update(ch)
	if len(unsubscribe) > 0 && (t.status.Subscriptions == 0 || !t.full) {
		st.reconsider(t)
	}
	return nil
}

// locateAll adds to a change the names that the client subscribes to. unsubscribe makes room for
// them.
func (st *stream) locateAll(ch *change, subscribe, unsubscribe []string) error {
	t, quota := ch.t, st.quota(ch.t.url, subscribe, unsubscribe)
	for _, spelling := range subscribe {
		store, name, err := st.route(t, spelling, quota)
		if r := refusal(err); r != nil {
			st.refuse(t, spelling, r)
			continue
		}
		if err != nil {
			return err
		}
		t.refusals.forget(spelling)
		ch.subscribe(store, name, len(subscribe))
	}
	if st.variant.form == stateForm {
		t.refusals.unsay()
	}
	return nil
}

// quota limits the names that a request adds, and how many refused ones are answered. It is apart from locateAll, under
// whose frame all is that begins a scope: each stream keeps as much stack as the deepest call took.
//
//go:noinline
func (st *stream) quota(typeURL string, subscribe, unsubscribe []string) *nameQuota {
	l := st.shared.limits.Load()
	q := newNameQuota(l, st.left(), "on one stream", st.subscriber.Places(), typeURL, subscribe, unsubscribe)
	names, bytes := st.types.remembered()
	st.types.answerable = l.answerable(names, bytes, forAnswers(q, st.types.total, subscribe))
	return q
}

// left returns what the client may subscribe to beside what it subscribes to.
func (st *stream) left() allowance {
	return st.shared.limits.Load().left(st.types.subscriptions(), st.subscribedBytes(), st.types.total)
}

// route returns the store of a name that the client subscribes to.
func (st *stream) route(t *typeState, spelling string, quota *nameQuota) (*cache.Store, cache.Name, error) {
	if err := tooLong(spelling, st.shared.limits.Load().PerClient.NameBytes); err != nil { // ABS-4
		st.shared.observer.Limited(LimitName)
		return nil, cache.Name{}, err
	}
	store, name, err := locate(st.routing.routes, t.url, spelling)
	switch {
	case crowded(err) != nil:
		st.shared.observer.Limited(crowded(err).limit)
	case err != nil:
	case t.unknown && !hasRoomFor(store, t.url, st.shared.limits.Load().PerClient.UnknownTypes):
		st.shared.observer.Limited(LimitTypes)
		err = errUnknownTypes
	default:
		err = quota.check(spelling, st.shared.observer)
	}
	if spelling == cache.Wildcard && t.unnamed {
		name.Spelling = ""
	}
	return store, name, err
}

// errUnknownTypes refuses a name for now (LIM-2): nothing is known of the resource.
var errUnknownTypes error = &refusedError{
	codes.Unavailable, errors.New("the control plane is asked for as many types already that it never answered as limits.unknown_types allows"),
}

func hasRoomFor(s *cache.Store, typeURL string, most int) bool {
	return most == 0 || s.HasRoomFor(typeURL, most)
}

// refuse keeps the answer to a name that the relay refuses.
func (st *stream) refuse(t *typeState, spelling string, r *refusedError) {
	if _, before := t.refusals.names[spelling]; before && st.variant.form == stateForm {
		return
	}
	st.shared.observer.Refused(t.url, r.code)
	e := &wire.ResourceError{Name: spelling, Code: r.code, Message: r.Error()}
	asked, _ := wire.CutWord(spelling)
	name := clip(asked)
	switch {
	case fits(0, e, st.shared.limits.Load().room()) && st.types.answerable.spend(len(e.Name)):
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
