package upstream

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// drainTime is how long a server may take to read the last unsubscriptions and end a
// stream that is no longer wanted.
const drainTime = time.Second

// streamLink is a line's xDS stream from the attempt to open it to its end. It belongs to
// the session's owner. The requests of the variant are its dialect's.
type streamLink struct {
	client  *grpcClient
	line    *line
	stream  *stream
	dialect dialect              // nil before the stream is open
	greeted bool                 // the node was sent (STR-2)
	asked   map[string]time.Time // types, since when
	added   map[string]time.Time // when names of a type that is asked for were last added (UPS-3)
	opening *query               // the first request
	doubt   *doubt               // the stream waits until that is decided
	unsure  bool                 // the stream is to begin anew, which shows which resources there are
	unheard map[string]*unheard  // wildcards that are not answered, by type
	nacks   nacks
}

// subscribed implements link.
func (k *streamLink) subscribed(typeURL string) time.Time { return k.added[typeURL] }

// asks reports whether a type was asked for on the stream.
func (k *streamLink) asks(typeURL string) bool {
	_, asked := k.asked[typeURL]
	return asked
}

// opened subscribes to everything wanted, with the versions held (RES-12).
func (k *streamLink) opened() {
	c, l := k.client, k.line
	c.remote.up.replicas.found(l.replica, true)
	l.opened()
	k.dialect = k.newDialect()
	l.count()
	c.report.log.Debug("stream opened", "stream", l.id, "endpoint", l.replica.name)

	subs := c.store.Restart(l.id, c.versionsLimit())
	c.delivered.restarted(l.id, subs)
	c.lead(l.id, subs)
	k.taken(subs)
	c.began()
	l.returned(slices.ContainsFunc(subs, func(sub wire.Subscription) bool { return len(sub.Versions) > 0 }), probeStands)
	if !c.store.StreamWanted(l.id) {
		k.drain() // only unsubscriptions were left, and Restart has dropped their names
	}
}

// demand implements link. It writes changes once nothing else waits to be written: for a
// slow server the Store merges changes, so that they are not queued here. After the last
// unsubscription the stream is no longer wanted.
func (k *streamLink) demand() {
	if k.stream.idle(func() {
		if k.line.serving() {
			k.demand()
		}
	}) && k.take() && !k.client.store.StreamWanted(k.line.id) {
		k.drain()
	}
}

// leave implements link: the last unsubscriptions are written.
func (k *streamLink) leave() {
	if k.take() {
		k.drain()
	}
}

// take writes changes, and reports whether the link goes on: the Store may want the stream to begin
// anew. Until that may be, the rest of the changes is written.
func (k *streamLink) take() bool {
	store := k.client.store
	subs, ok := store.TakeDemand(k.line.id)
	if !ok || k.unsure {
		pause := alonePause
		if store.Shared() {
			pause = renewPause
		}
		if k.line.again(pause) {
			return false
		}
	}
	k.taken(subs)
	return true
}

// taken writes the subscriptions that were taken from the Store.
func (k *streamLink) taken(subs []wire.Subscription) {
	k.dialect.begin()
	for _, sub := range subs {
		k.client.delivered.unsubscribed(k.line.id, sub)
		k.subscribe(sub)
	}
	k.say(k.dialect.flush())
	k.client.session.settle()
}

// subscribe writes one subscription, unless its type is kept aside.
func (k *streamLink) subscribe(sub wire.Subscription) {
	if !k.client.keepAside(k, sub) {
		k.ask(sub)
	}
}

// ask writes one subscription.
//
// In the state of the world a request names the last response, which acknowledges it: a NACK that waits
// cannot do so any longer. An answer that is held does so in neither form (ACK-7).
func (k *streamLink) ask(sub wire.Subscription) {
	c := k.client
	k.release(sub.TypeURL)
	if c.cfg.APIType.State() {
		k.answerWaiting(sub.TypeURL)
	}
	reserved := 0
	if !k.greeted {
		reserved = c.nodeSize
	}
	first, now := !k.asks(sub.TypeURL), time.Now()
	reqs := k.dialect.subscribe(sub, reserved, c.cfg.MaxRequestSize)
	k.say(reqs)
	if len(sub.Subscribe) > 0 {
		k.added[sub.TypeURL] = now
	}
	if len(reqs) > 0 {
		k.owes(sub, first, now)
		k.awaitAdded(sub.TypeURL, now)
		k.awaitAll(sub, first, now)
		k.unheard[sub.TypeURL].besides(sub.Subscribe)
	}
}

// owes notes the answer that the server owes for a subscription that was written. One that presents versions is owed nothing, and in the
// state of the world neither is one of which something is held: a relay that begins may leave it unanswered for
// long (RES-2).
func (k *streamLink) owes(sub wire.Subscription, first bool, now time.Time) {
	d, id := &k.client.delivered, k.line.id
	s, state := k.dialect.(*stateDialect)
	q := &query{stream: id, typeURL: sub.TypeURL, names: sub.Subscribe[:min(len(sub.Subscribe), someNames)]}
	if state {
		q.names = s.types[sub.TypeURL].last
		d.listed(id, sub.TypeURL, q.names)
	} else if slices.Contains(sub.Subscribe, wildcard) {
		q.names, q.sure = nil, true
	}
	if len(sub.Subscribe) == 0 {
		return
	}
	if k.opening == nil {
		k.opening = q
	}
	if len(sub.Versions) == 0 {
		k.line.asks(now, first, !state && d.has(id, sub))
	}
}

// say writes requests that change subscriptions. With the first the stream begins to stand.
func (k *streamLink) say(reqs []request) {
	for _, req := range reqs {
		if !k.asks(req.GetTypeUrl()) {
			now := time.Now()
			if len(k.asked) == 0 && !k.line.established {
				k.line.at = now.Add(stableAfter)
			}
			k.asked[req.GetTypeUrl()] = now
		}
		k.write(req, KindSubscribe)
	}
}

// write hands a request to the stream's sender. The first of each stream carries the node
// (STR-2).
func (k *streamLink) write(req request, kind RequestKind) {
	if !k.greeted {
		withNode(req, k.client.node)
		k.greeted = true
	}
	k.stream.enqueue(outgoing{req: req, kind: kind})
}

// drain has the server end the stream once it has read all requests.
func (k *streamLink) drain() {
	k.stream.enqueue(outgoing{})
	k.line.draining = true
	k.line.at = time.Now().Add(drainTime)
}

// close implements link.
func (k *streamLink) close() {
	k.client.held.drop(k)
	k.stream.stop()
	k.client.pool.release(k.stream.conn)
	if k.dialect != nil {
		k.client.withdraw(k)
	}
}

// lost ends a stream that broke, or could not be opened, and sees to the next.
func (k *streamLink) lost(cause error) {
	c, l := k.client, k.line
	c.offended(k.stream.conn, cause)
	cause = c.headers.conceal(cause)
	err := l.failure(reasonOf(cause, l.open), cause)
	if l.draining {
		l.end(ReasonUnwanted)
		return
	}
	good := l.established && !err.Reason.repeats() && err.Reason != ReasonSilent
	c.ended(l.replica, cause)
	c.setAside(k, cause)
	stay := good || k.refused(cause)
	if c.rejectsSecond(k, cause) {
		c.mergeStreams(l, err)
		return
	}
	l.fail(err, !l.open || err.Reason == ReasonSilent, stay)
}

// refused reports whether a stream that broke carried one type, for which the server
// may have ended it. That costs no other type anything: the stream is tried again where it
// was, at growing intervals, as long as the endpoint serves others.
func (k *streamLink) refused(cause error) bool {
	c, l := k.client, k.line
	if !c.cfg.APIType.PerType() || !l.open || !refusedBy(cause) {
		return false
	}
	if !l.refused {
		c.report.log.Warn("server ended the stream of a type, which it may not serve", "type", l.id.TypeURL, "error", detail(cause))
	}
	l.refuse(cause)
	return slices.ContainsFunc(c.remote.lines, func(o *line) bool { return o != l && o.established })
}

// respond takes a response and answers it, once (STR-8).
func (k *streamLink) respond(r *wire.Received, at time.Time) {
	c, l := k.client, k.line
	if k.doubt != nil {
		k.doubt.behind = append(k.doubt.behind, arrival{r, at})
		return
	}
	r.TypeURL = cmp.Or(r.TypeURL, l.id.TypeURL)
	e := envelopeOf(r)
	c.report.responded(e.typeURL, len(r.Resources), len(r.Removed), r.Size, at)
	asked := k.asks(e.typeURL)
	if !asked && e.nonce == "" || e.typeURL == "" {
		// Without a type no ADS server takes an answer. Without a nonce and for a
		// type never asked for, an answer would read as a subscription (SUB-3).
		k.lost(errors.Join(errUnanswerable, r.Err))
		return
	}
	l.answered(at)
	if asked {
		c.took(e.typeURL)
		k.heardAll(r)
	}
	if l.draining {
		return // nothing can be written any more, and its nonce ends with the stream
	}
	k.release(e.typeURL)
	reason := r.Err
	if reason == nil && !asked && c.cfg.APIType.PerType() {
		reason = errNotAsked // a wrong type (ACK-6)
	}
	switch {
	case reason != nil:
	case asked && k.doubts(r, e, at):
		return
	case asked:
		k.accept(r, e, at)
		return
	default: // SUB-13
		c.report.log.Info("server sends a type that it was not asked for: acknowledged and left out",
			"stream", l.id, "endpoint", l.replica.name, "type", e.typeURL, "resources", len(r.Resources))
	}
	k.answerNext(r, e, reason, at)
}

// accept takes up a response, and answers it.
func (k *streamLink) accept(r *wire.Received, e envelope, at time.Time) {
	if held, reason := k.apply(r, e, at); !held {
		k.answerNext(r, e, reason, at)
	}
}

// answerNext answers a response now, behind those that came before.
func (k *streamLink) answerNext(r *wire.Received, e envelope, reason error, at time.Time) {
	if reason != nil {
		e.content = contentSum(r)
	}
	k.answer(e, reason, at)
}

// apply hands a response to the Store, whose error is the reason for a NACK. If the answer
// is held until clients have decided, it is written later (ACK-7).
func (k *streamLink) apply(r *wire.Received, e envelope, at time.Time) (held bool, reason error) {
	c := k.client
	before, last := c.store.Sequence(), k.rejectedBefore(r, e.typeURL)
	listens := c.cfg.Nack.Wait > 0 && (last == nil || last.count < maxSameNacks)
	if listens {
		c.held.expect(k, e, r, before, last, at)
	}
	reason = c.session.safety.apply(c.store, k.line.id, &r.Response, at)
	if d, state := k.dialect.(*stateDialect); state && reason == nil {
		d.came(&r.Response)
	}
	if reason == nil && c.cfg.Keepalive.Response > 0 { // else no server is asked whether it still answers
		c.delivered.take(k.line.id, &r.Response, r.Size)
	}
	switch {
	case !listens:
	case reason != nil:
		c.held.forget(k, e.typeURL)
	default:
		changes := ack.Span{First: before + 1, Last: c.store.Sequence()}
		heard, again := c.store.Heard()
		if changes.Last == before {
			heard = last != nil && (again || last.parts)
			if last != nil {
				changes = last.changes
			}
		}
		if held = c.held.applied(k, e.typeURL, changes, heard); held {
			c.rung() // a client may have been quick
		}
	}
	c.session.settle()
	return held, reason
}

// rejectedBefore gives the NACK that was the last of a type, if it was because of clients, and of what the
// response has. nil: it was not.
func (k *streamLink) rejectedBefore(r *wire.Received, typeURL string) *nack {
	if last := k.nacks[typeURL]; last != nil && !last.changes.Empty() && last.content == contentSum(r) {
		return last
	}
	return nil
}

// release writes the answer of a type that is held.
func (k *streamLink) release(typeURL string) {
	if a, ok := k.client.held.release(k, typeURL); ok {
		a.write(time.Now())
	}
}

// answer acknowledges a response, or rejects it for a reason. A waiting answer of the type goes before.
func (k *streamLink) answer(e envelope, reason error, at time.Time) {
	if reason != nil {
		k.client.report.noteRejected(e.typeURL, e.nonce, reason, at)
	}
	if !k.nacks.same(e, reason) {
		k.answerWaiting(e.typeURL)
	}
	if !k.nacks.wait(e, reason, time.Now()) {
		k.reply(e, reason)
	}
}

// answerWaiting writes the NACK of a type that waits.
func (k *streamLink) answerWaiting(typeURL string) {
	if e, reason := k.nacks.take(typeURL, time.Now()); reason != nil {
		k.reply(e, reason)
	}
}

// next is when elapse has something to do; zero: never.
func (k *streamLink) next() time.Time {
	return notify.Earlier(notify.Earlier(k.nacks.next(), k.addedAt()), k.quietAt())
}

// elapse writes the NACKs that have waited long enough, and asks for names that have.
func (k *streamLink) elapse(now time.Time) {
	for _, typeURL := range k.nacks.due(now) {
		k.answerWaiting(typeURL)
	}
	k.elapseAdded(now)
	k.elapseQuiet(now)
}

// reply writes an ACK or a NACK.
func (k *streamLink) reply(e envelope, reason error) {
	kind := KindAck
	if reason != nil {
		kind = KindNack
	}
	if req := k.dialect.answer(e, reason); req != nil {
		k.write(req, kind)
		if d, state := k.dialect.(*stateDialect); state {
			k.say(d.behind(e.typeURL))
		}
	}
}

// newDialect makes the dialect of the stream.
func (k *streamLink) newDialect() dialect {
	c, id := k.client, k.line.id
	if !c.cfg.APIType.State() {
		return &deltaDialect{asked: make(map[string]struct{}), form: c.remote.up.wildcards.of()}
	}
	return &stateDialect{
		fullState: c.cfg.FullState, perType: c.cfg.APIType.PerType(), types: make(map[string]*stateType), checks: c.checksLists(),
		owed:    make(map[string]int),
		shed:    func(typeURL string, bytes int) bool { return c.store.Shed(id, typeURL, bytes) },
		leftOut: func(typeURL string, out, in []string) { c.store.LeaveOut(id, typeURL, out, in) },
		large:   c.report.noteLarge,
	}
}
