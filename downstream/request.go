package downstream

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// typeState is one type's sub-stream (VAR-4).
type typeState struct {
	url           string
	wildcard      *cache.Client // where "*" is subscribed to
	subscriptions int
	refused       []wire.ResourceError // names that the relay itself answers, not told yet
	unnamed       bool                 // "*" is subscribed to by naming nothing (SUB-4)

	// Flow control. Nonces are numbers that rise on the stream, so one comparison
	// tells whether the last response was acknowledged.
	sent, acked uint64
	sentAt      time.Time
	received    time.Time // when the oldest change in the last responses came from upstream
	released    bool      // the time limit for the ACK has passed
	origins     []origin  // of the responses that are not acknowledged, the oldest first

	listed listed // of the state-of-the-world form
	told   uint64 // nonce of the last response with more in it than heartbeats
	// What the client takes for the version of what it holds, in the state-of-the-world
	// form: it says so itself when it rejects a response.
	holds string

	// Of a stream that moved: the client was given all that there was at the time when the
	// last response was this one; the last one when its lists had nothing of another scope
	// any more; and the version that it held, which must not be that of anything else.
	given    bool
	givenAt  uint64
	listedAt uint64
	avoids   string
	unserved map[string]struct{} // names of an incremental client that no upstream is for (LOC-4)

	systemVersion string     // of the last response
	status        TypeStatus // guarded by stream.mu
}

// origin is where a response came from: the store, and the number of its youngest
// change there.
type origin struct {
	nonce, change uint64
	store         *cache.Store
}

// maxOrigins bounds what is kept for a client that acknowledges nothing.
const maxOrigins = 4 * maxParts

// from gives the origin of a response that is acknowledged now, and forgets it and
// those before it.
func (t *typeState) from(nonce uint64) (o origin, ok bool) {
	for i, o := range t.origins {
		if o.nonce >= nonce {
			ok = o.nonce == nonce
			if ok {
				i++
			}
			t.origins = append(t.origins[:0], t.origins[i:]...)
			return o, ok
		}
	}
	t.origins = t.origins[:0]
	return origin{}, false
}

// busy reports whether an acknowledgement is awaited.
func (t *typeState) busy() bool { return t.acked < t.sent && !t.released }

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
	if r.err != nil {
		return r.err
	}
	if st.routes == nil {
		node, err := r.node()
		if err != nil {
			return err
		}
		st.begin(node, r.names)
	}
	st.server.observer.Requested(typeURL)
	t := st.typed(typeURL)
	first := t == nil
	if first {
		if len(st.types) == maxTypes {
			return status.Errorf(codes.ResourceExhausted, "more than %d types on one stream", maxTypes)
		}
		t = &typeState{url: typeURL}
		t.listed.presented, t.holds = r.versionInfo, r.versionInfo
		st.mu.Lock()
		st.types = append(st.types, t)
		st.mu.Unlock()
	}
	// A request that names far more than may be subscribed to costs nothing but its
	// reading. What others add up to is known when they were carried out.
	if err := st.server.flooded(max(len(r.subscribe), len(r.names)), "on one stream"); err != nil {
		return err
	}
	seen, ours := st.number(r.nonce)
	further := ours && seen <= t.acked
	if r.nonce != "" || r.rejection != nil {
		st.acknowledge(t, r, seen)
	}
	var subscribe, unsubscribe []string
	var versions wire.Versions
	switch {
	case st.variant.form == deltaForm:
		// STR-5: whatever the nonce, subscriptions are carried out.
		subscribe, unsubscribe = r.subscribe, r.unsubscribe
		t.unnamed = false
		if first && len(subscribe)+len(unsubscribe) == 0 {
			subscribe = []string{cache.Wildcard} // SUB-3, SUB-4
			t.unnamed = true
		}
		if first {
			versions = r.versions
		}
	case t.sent == 0 || seen == t.sent:
		again := t.listed.again || (further && st.asksAgain(t, r, min(seen, t.told)))
		t.listed.again = false
		subscribe, unsubscribe = st.change(t, r, again)
	default:
		// STR-4, STR-6: the client is about to answer a later response, and says then
		// what it subscribes to. That it asked again it will not say.
		t.listed.again = t.listed.again || (further && st.asksAgain(t, r, min(seen, t.told)))
		return nil
	}
	if len(subscribe)+len(unsubscribe)+versions.Len() == 0 {
		return nil
	}
	if err := st.subscribe(t, subscribe, unsubscribe, versions); err != nil {
		return err
	}
	total := 0
	for _, t := range st.types {
		total += t.subscriptions + len(t.listed.denied) + len(t.unserved)
	}
	return st.server.flooded(total, "on one stream")
}

// loudRejections is how many rejections of one client, of one type, are worth a warning
// each. A client may go on for ever; what it says is counted, and the last is shown on
// the admin port (ACK-7).
const loudRejections = 8

// rejectionLevel is the level at which a client's rejection is logged that comes after
// others.
func rejectionLevel(before int64) slog.Level {
	if before < loudRejections {
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// acknowledge takes an ACK or a NACK: error_detail tells them apart (ACK-1).
// Either way the response is done with: what was rejected is not sent again until
// its content changes (ACK-3). n is the response's number, zero if it has none.
func (st *stream) acknowledge(t *typeState, r *discoveryRequest, n uint64) {
	if n <= t.acked || n > t.sent {
		return // stale, or never given: a client may say so as often as it likes
	}
	st.hasRead(n)
	now := time.Now()
	rejected := r.rejection != nil
	if rejected {
		st.server.observer.Nacked(t.url)
		level := rejectionLevel(t.status.Nacks)
		st.log(level).Log(context.Background(), level, "client rejected a response", "type", t.url, "nonce", n, "reason", clip(r.rejection.GetMessage()))
		st.nacked(t, r, now)
	}
	t.acked = n
	o, ok := t.from(n)
	switch {
	case !rejected:
		st.server.observer.Acked(t.url)
	case ok:
		st.routes.Rejected(o.store, t.url, o.change, st.status.node+": "+clip(r.rejection.GetMessage()))
	}
	if n < t.sent {
		return
	}
	if rejected {
		t.holds = r.versionInfo
	}
	t.released = false // late, but here
	if !t.received.IsZero() {
		st.server.observer.Acknowledged(t.url, now.Sub(t.received))
		t.received = time.Time{}
	}
	if !rejected {
		st.acked(t)
	}
}

// change gathers what a request changes in each store.
type change struct {
	stores  []*cache.Store
	changes map[*cache.Store]*cache.Change
}

func (c *change) of(s *cache.Store, t *typeState) *cache.Change {
	ch := c.changes[s]
	if ch == nil {
		ch = &cache.Change{TypeURL: t.url}
		if t.sent == 0 {
			ch.VersionInfo = t.listed.presented
		}
		c.changes[s] = ch
		c.stores = append(c.stores, s)
	}
	return ch
}

// subscribe changes the subscriptions to one type.
func (st *stream) subscribe(t *typeState, subscribe, unsubscribe []string, versions wire.Versions) error {
	st.calm = false
	ch := &change{changes: make(map[*cache.Store]*cache.Change)}
	quota := st.quota(t, subscribe, unsubscribe)
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
	return nil
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
	for _, client := range st.order {
		if client.Watches(t.url) > 0 {
			c.of(client.Store(), t).Relist = true
		}
	}
}

// update carries the changes out, store by store.
func (st *stream) update(t *typeState, ch *change) {
	for _, s := range ch.stores {
		c := st.client(s)
		was := c.Watches(t.url)
		gone, kept := c.Update(*ch.changes[s])
		st.counted(t, c.Watches(t.url)-was)
		switch follows := c.Follows(t.url); {
		case follows && t.wildcard != c:
			t.wildcard = c
			st.tellElsewhere(t)
		case !follows && t.wildcard == c:
			t.wildcard = nil
		}
		if t.wildcard != nil && t.wildcard != c {
			st.handOver(t, c, ch.changes[s].Subscribe, gone, kept)
		}
	}
}

// handOver tells the store of "*" what is subscribed to in another one now, and what is
// not any more: that is answered from "*" (SUB-8, GLOB-5). The other one is told what the
// client has from "*" of globs that begin.
func (st *stream) handOver(t *typeState, c *cache.Client, begun, gone, kept []cache.Name) {
	if brought := t.wildcard.Brought(t.url, begun); len(brought) > 0 {
		c.Update(cache.Change{TypeURL: t.url, Answer: brought})
	}
	t.wildcard.Update(cache.Change{TypeURL: t.url, Answer: gone, Kept: kept, Elsewhere: begun})
}

// tellElsewhere tells the store where "*" begins what is subscribed to in the others.
func (st *stream) tellElsewhere(t *typeState) {
	var names []cache.Name
	for _, c := range st.order {
		if c != t.wildcard {
			names = slices.AppendSeq(names, c.Names(t.url))
		}
	}
	if len(names) > 0 {
		t.wildcard.Update(cache.Change{TypeURL: t.url, Elsewhere: names})
	}
}

// route finds the store of a name. What the relay must answer itself is noted and
// gives no store.
func (st *stream) route(t *typeState, spelling string, quota *quota) (*cache.Store, cache.Name, error) {
	store, name, err := locate(st.routes, t.url, spelling)
	if err == nil && wire.IsLocator(spelling) && st.form.State && !st.form.Wrapped {
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
