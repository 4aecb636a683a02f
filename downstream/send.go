package downstream

import (
	"cmp"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// headerRoom is what Finish may add to a response beyond its batch.
const headerRoom = 1 << 10

// pass sends what the client lacks now, and sets the alarm for the next pass: when the
// first outstanding ACK is overdue. Who rings from its beginning on is heard by the next
// one, so that it comes before all that anybody rings for is looked at.
func (st *stream) pass() error {
	st.rung.Store(false)
	if err := st.reroute(); err != nil {
		return err
	}
	st.release(time.Now())
	before := st.arrange()
	if err := st.sendRefused(); err != nil {
		return err
	}
	if err := st.sendEmptyLists(); err != nil {
		return err
	}
	batches, more, err := st.collect()
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := st.send(b); err != nil {
			return err
		}
	}
	if err := st.sendDenied(); err != nil {
		return err
	}
	after := st.arrange()
	st.calm = !st.form.State && !st.moving && !slices.ContainsFunc(st.order, (*cache.Client).Held)
	if more || after != before {
		// Requests have their turn before the next parts. Something may go out now that
		// waited for what went out, or needed no word.
		st.rung.Store(true)
	}
	now := time.Now() // sending may have taken its time
	next, err := st.part(after, now)
	if due := st.deadline(now); next == 0 || (due > 0 && due < next) {
		next = due
	}
	st.wakeIn(next, now)
	return err
}

// busy reports whether an acknowledgement is awaited for a type.
func (st *stream) busy(typeURL string) bool {
	t := st.typed(typeURL)
	return t != nil && t.busy()
}

// collect takes from every store what the client lacks, and orders it
// make-before-break across stores (ADS-1).
func (st *stream) collect() (batches []*cache.Batch, more bool, err error) {
	switch {
	case len(st.order) == 0:
		return nil, false, nil
	case st.form.State:
		batches, more = cache.CollectStates(st.order, st.awaits, st.server.limits.Load().MaxMessageSize-headerRoom, maxParts)
		return batches, more, nil
	case len(st.order) == 1:
		return st.collectFrom((*cache.Client).Collect)
	}
	batches, more, err = st.collectFrom((*cache.Client).CollectAdditions)
	if err != nil {
		return nil, false, err
	}
	if early := st.overtaken(batches); early != nil {
		overtaken := func(c *cache.Client, busy func(string) bool, size, parts int) ([]*cache.Batch, bool, error) {
			return c.CollectOvertaken(func(typeURL string) bool { return early[typeURL] }, busy, size, parts)
		}
		some, left, err := st.collectFrom(overtaken)
		if err != nil {
			return nil, false, err
		}
		batches, more = append(batches, some...), more || left
	}
	slices.SortStableFunc(batches, makeBeforeBreak)
	if more || slices.ContainsFunc(st.order, (*cache.Client).Due) {
		return batches, more, nil // what waits for later types waits for those of every store
	}
	last, more, err := st.collectFrom((*cache.Client).Collect)
	if err != nil {
		return nil, false, err
	}
	slices.SortStableFunc(last, makeBeforeBreak)
	return append(batches, last...), more, nil
}

// makeBeforeBreak orders batches of several stores as each store orders its own.
func makeBeforeBreak(a, b *cache.Batch) int {
	switch {
	case a.Removal == b.Removal:
		return cmp.Compare(a.Rank, b.Rank)
	case a.Removal:
		return 1
	}
	return -1
}

// overtaken gives the types that are held back by an outstanding ACK although a
// later type is about to be sent. A store does not hold back what its own later
// types would overtake (ADS-2), but it does not know of other stores'.
func (st *stream) overtaken(batches []*cache.Batch) map[string]bool {
	last := cache.Rank(-1)
	for _, b := range batches {
		if !b.Removal {
			last = max(last, b.Rank)
		}
	}
	var early map[string]bool
	for _, t := range st.types {
		if t.busy() && cache.RankOf(t.url) < last {
			if early == nil {
				early = make(map[string]bool)
			}
			early[t.url] = true
		}
	}
	return early
}

// collector is one of the ways to collect from a store.
type collector func(c *cache.Client, busy func(typeURL string) bool, size, parts int) ([]*cache.Batch, bool, error)

// collectFrom asks every store.
func (st *stream) collectFrom(collect collector) (batches []*cache.Batch, more bool, err error) {
	size := st.server.limits.Load().MaxMessageSize - headerRoom
	for _, c := range st.order {
		some, left, err := collect(c, st.awaits, size, maxParts)
		if err != nil {
			return nil, false, status.Error(codes.Unavailable, err.Error())
		}
		batches = append(batches, some...)
		more = more || left
	}
	return batches, more, nil
}

// send hands one response to the stream. It blocks while the client does not
// read.
func (st *stream) send(b *cache.Batch) error {
	t := st.typed(b.TypeURL)
	if b.Heartbeats {
		if t.holds == "" {
			return nil // it accepted nothing that could be renewed
		}
		b.SystemVersion = t.holds
	}
	if t.released {
		t.released = false
		st.server.observer.Overdue(t.url)
	}
	if st.variant.form == stateForm && !b.Heartbeats {
		st.attach(t, b)
	}
	if t.avoids != "" && !b.Heartbeats {
		if b.SystemVersion == t.avoids && st.form.State {
			b.SystemVersion = cache.OtherVersion(b.SystemVersion)
		} else {
			t.avoids = ""
		}
	}
	st.nonce++
	resources, removed := b.Body.Resources(), b.Body.Removed() // Finish empties it
	msg := b.Body.Finish(b.TypeURL, b.SystemVersion, st.nonceOf(st.nonce))
	bytes := msg.Len()
	if st.mayBlock() {
		st.sender.leave()
	}
	if err := st.grpc.SendMsg(msg); err != nil {
		return err
	}
	st.last = uint32(frameHead + bytes)
	st.written += uint64(st.last)
	now := time.Now()
	t.sent, t.sentAt = st.nonce, now
	if !b.Heartbeats {
		t.told, t.holds = st.nonce, b.SystemVersion
	}
	if !b.Removal && !b.Heartbeats && resources > 0 && (b.Rank == cache.RankCluster || b.Rank == cache.RankListener) {
		st.parent = st.nonce
	}
	if b.Store != nil && len(t.origins) < maxOrigins {
		t.origins = append(t.origins, origin{st.nonce, b.Last, b.Store})
	}
	o := st.server.observer
	o.Sent(t.url, resources, removed, bytes, b.Merged)
	if !b.Received.IsZero() {
		o.Propagated(t.url, now.Sub(b.Received))
		if t.received.IsZero() || b.Received.Before(t.received) {
			t.received = b.Received
		}
	}
	st.sentOne(t, b.SystemVersion, resources, bytes)
	return nil
}

// release gives up waiting for ACKs that are overdue.
func (st *stream) release(now time.Time) {
	patience := st.server.limits.Load().AckTimeout
	for _, t := range st.types {
		if t.busy() && !now.Before(t.sentAt.Add(patience)) {
			t.released = true
		}
	}
}

// deadline is how long the first awaited ACK may still take.
func (st *stream) deadline(now time.Time) time.Duration {
	var next time.Duration
	patience := st.server.limits.Load().AckTimeout
	for _, t := range st.types {
		if !t.busy() {
			continue
		}
		left := max(time.Nanosecond, t.sentAt.Add(patience).Sub(now))
		if next == 0 || left < next {
			next = left
		}
	}
	return next
}
