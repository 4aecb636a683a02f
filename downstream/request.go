package downstream

import (
	"slices"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits of what a client may say (OPS-5).
const (
	maxTypeURL = 512
	// maxTypes bounds the sub-streams of a stream: there are some dozens of types.
	maxTypes = 256
)

// request carries out one request, and releases it.
func (st *stream) request(r *discoveryRequest) error {
	defer r.release()
	if len(r.typeURL) > maxTypeURL {
		return status.Errorf(codes.ResourceExhausted, "type_url has %d bytes, at most %d are served", len(r.typeURL), maxTypeURL)
	}
	typeURL, err := st.variant.typeURL(r.typeURL)
	if err != nil {
		return err
	}
	if st.routes == nil {
		node, err := r.node()
		if err != nil {
			return err
		}
		st.begin(node, r.names)
	}
	st.server.observer.Requested(typeURL)
	t, first, err := st.admit(typeURL, r)
	if err != nil {
		return err
	}
	seen, ours := st.number(r.nonce)
	further := ours && seen <= t.acked
	if r.nonce != "" || r.rejection != nil {
		st.acknowledge(t, r, seen)
	}
	var subscribe, unsubscribe []string
	var versions wire.Versions
	if st.variant.form == deltaForm {
		// STR-5: whatever the nonce, subscriptions are carried out.
		subscribe, unsubscribe, versions = t.changes(r, first)
	} else {
		subscribe, unsubscribe = st.stateChanges(t, r, seen, further)
	}
	if len(subscribe)+len(unsubscribe)+versions.Len() == 0 {
		return nil
	}
	return st.subscribe(t, subscribe, unsubscribe, versions)
}

// admit gives what is known of a request's type, and whether the request is the first one
// for it.
func (st *stream) admit(typeURL string, r *discoveryRequest) (t *typeState, first bool, err error) {
	if t := st.typed(typeURL); t != nil {
		return t, false, nil
	}
	if len(st.types) == maxTypes {
		return nil, false, status.Errorf(codes.ResourceExhausted, "more than %d types on one stream", maxTypes)
	}
	t = &typeState{url: typeURL}
	t.listed.presented = r.versionInfo
	st.mu.Lock()
	st.types = append(st.types, t)
	st.mu.Unlock()
	return t, true, nil
}

// changes gives what an incremental request changes.
func (t *typeState) changes(r *discoveryRequest, first bool) (subscribe, unsubscribe []string, versions wire.Versions) {
	t.unnamed = false
	subscribe = withoutBoth(r.subscribe, r.unsubscribe)
	if !first {
		return subscribe, r.unsubscribe, versions
	}
	if len(r.subscribe)+len(r.unsubscribe) == 0 {
		t.unnamed = true
		return []string{cache.Wildcard}, nil, r.versions // SUB-3, SUB-4
	}
	return subscribe, r.unsubscribe, r.versions
}

// withoutBoth takes the wildcard out of what a request subscribes to if the request
// unsubscribes it too: so ztunnel says that it wants nothing yet, and nobody is to be
// asked for everything (SUB-3).
func withoutBoth(subscribe, unsubscribe []string) []string {
	all := func(name string) bool { return name == cache.Wildcard }
	if !slices.ContainsFunc(unsubscribe, all) || !slices.ContainsFunc(subscribe, all) {
		return subscribe
	}
	return slices.DeleteFunc(slices.Clone(subscribe), all)
}

// stateChanges gives what a state-of-the-world request changes. seen is the number of its
// nonce, and further says that it was acknowledged before.
func (st *stream) stateChanges(t *typeState, r *discoveryRequest, seen uint64, further bool) (subscribe, unsubscribe []string) {
	again := t.listed.again || (further && st.asksAgain(t, r, min(seen, t.told)))
	if t.sent != 0 && seen != t.sent {
		// STR-4, STR-6: the client is about to answer a later response, and says then
		// what it subscribes to. That it asked again it will not say.
		t.listed.again = again
		return nil, nil
	}
	t.listed.again = false
	return st.change(t, r, again)
}

// change gathers what a request changes in each store.
type change struct {
	routes  Routes
	stores  []*cache.Store
	changes map[*cache.Store]*cache.Change
}

func (st *stream) newChange() *change {
	return &change{routes: st.routes, changes: make(map[*cache.Store]*cache.Change)}
}

func (c *change) of(s *cache.Store, t *typeState) *cache.Change {
	ch := c.changes[s]
	if ch == nil {
		ch = &cache.Change{TypeURL: t.url}
		if t.sent == 0 {
			ch.VersionInfo = t.listed.presented
			ch.Distrust = c.routes.Distrusts(s)
		}
		c.changes[s] = ch
		c.stores = append(c.stores, s)
	}
	return ch
}

// subscribe changes the subscriptions to one type.
func (st *stream) subscribe(t *typeState, subscribe, unsubscribe []string, versions wire.Versions) error {
	st.calm = false
	ch := st.newChange()
	quota := st.quota(t, subscribe, unsubscribe)
	st.answerable = st.answers()
	pardoned := false
	for _, spelling := range subscribe {
		store, name, err := st.route(t, spelling, quota)
		if err != nil {
			return err
		}
		if store != nil {
			pardoned = t.admitted(spelling) || pardoned
			delete(t.unserved, spelling)
			sub := ch.of(store, t)
			if len(ch.stores) == 1 && sub.Subscribe == nil {
				sub.Subscribe = make([]cache.Name, 0, len(subscribe)) // mostly one store has them all
			}
			sub.Subscribe = append(sub.Subscribe, name)
		}
	}
	if pardoned {
		t.untell()
	}
	for _, spelling := range unsubscribe {
		delete(t.unserved, spelling)
		store, name, err := locate(st.routes, t.url, spelling)
		if refusal(err) != nil {
			continue // it was refused when it was subscribed to (SUB-7)
		}
		if err != nil {
			return err
		}
		sub := ch.of(store, t)
		sub.Unsubscribe = append(sub.Unsubscribe, name)
	}
	st.hold(t, ch, versions)
	if t.listed.missing {
		ch.relist(st, t)
	}
	st.update(t, ch)
	if len(unsubscribe) > 0 && (t.subscriptions == 0 || !st.lists(t)) {
		st.reconsider(t)
	}
	return nil
}

// lists reports whether the client is sent whole lists of a type (RES-2).
func (st *stream) lists(t *typeState) bool {
	return st.variant.form == stateForm && st.server.config.FullState[t.url]
}

// relist has a list sent that lacks what the relay does not serve, by a store that
// is subscribed to or will be.
func (c *change) relist(st *stream, t *typeState) {
	for _, s := range c.stores {
		if len(c.changes[s].Subscribe) > 0 {
			c.changes[s].Relist = true
			return
		}
	}
	for _, client := range st.stores() {
		if client.Watches(t.url) > 0 {
			c.of(client.Store(), t).Relist = true
		}
	}
}

// update carries the changes out, store by store. The store where "*" begins comes first: "*"
// answers for names that end in other stores (SUB-8).
func (st *stream) update(t *typeState, ch *change) {
	if whole := ch.wildcard(); whole != nil && len(ch.stores) > 1 {
		first := slices.IndexFunc(ch.stores, func(s *cache.Store) bool { return ch.changes[s] == whole })
		ch.stores[0], ch.stores[first] = ch.stores[first], ch.stores[0]
	}
	for _, s := range ch.stores {
		c := st.places.Join(s)
		was := c.Watches(t.url)
		c.Update(*ch.changes[s])
		st.counted(t, c.Watches(t.url)-was)
	}
}

// route finds the store of a name. What the relay must answer itself is noted and
// gives no store.
func (st *stream) route(t *typeState, spelling string, quota *quota) (*cache.Store, cache.Name, error) {
	store, name, err := locate(st.routes, t.url, spelling)
	if err == nil && wire.IsLocator(spelling) && st.bare() {
		err = &refusedError{codes.InvalidArgument, errUnwrapped}
	}
	if err == nil && !quota.admits(spelling) {
		err = st.server.beyond("on one stream")
	}
	if r := refusal(err); r != nil {
		st.refuse(t, spelling, r)
		return nil, name, nil
	}
	if spelling == cache.Wildcard && t.unnamed {
		name.Spelling = ""
	}
	return store, name, err
}
