package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// headerRoom is what Finish may add to a response beyond its batch.
const headerRoom = 1 << 10

// pass sends what the client lacks now, and sets the alarm for the next pass. Who rings from
// its beginning on is heard by the next one, so that it comes before all that anybody rings
// for is looked at.
func (st *stream) pass() error {
	st.rung.Store(false)
	st.reroute()
	if err := st.unserved(); err != nil {
		return err
	}
	if err := st.sendRefused(); err != nil {
		return err
	}
	if err := st.sendEmptyLists(); err != nil {
		return err
	}
	left, err := st.sendLacking()
	if err != nil {
		return err
	}
	if err := st.sendDenied(); err != nil {
		return err
	}
	held := st.places != nil && st.places.Held()
	st.calm = !held && st.variant.form != stateForm
	if left.More {
		st.rung.Store(true) // requests have their turn before the next parts
	}
	next := left.Next
	if held {
		next = earlier(next, st.patience())
	}
	if st.alarm != nil || !next.IsZero() {
		st.wakeAt(next, time.Now()) // sending may have taken its time
	}
	return nil
}

// unserved ends a stream that was sent nothing yet and cannot be: a client with a second
// server goes there only if its stream ends before the first response (ABS-2).
func (st *stream) unserved() error {
	if st.nonce > 0 || st.places == nil {
		return nil
	}
	cause, none := cache.Outage(st.stores())
	if !none {
		return nil
	}
	st.server.observer.Unserved(st.variant.String())
	return status.Error(codes.Unavailable, cause)
}

// sendLacking sends what the stores have for the client.
func (st *stream) sendLacking() (cache.Outlook, error) {
	if st.places == nil {
		return cache.Outlook{}, nil
	}
	st.now = time.Now()
	l := st.server.limits.Load()
	batches, left, err := st.places.Collect(cache.Pace{
		Acks: st.acks, Size: l.MaxMessageSize - headerRoom, Parts: maxParts,
		RemovalWait: l.RemovalWait, WarmWait: l.WarmWait, ListWait: listWait, ListHold: l.ListHold,
	})
	if err != nil {
		return left, status.Error(codes.Unavailable, err.Error())
	}
	for _, b := range batches {
		if err := st.send(b); err != nil {
			return left, err
		}
	}
	return left, nil
}

// listWait is how long listeners and routes wait for a list of clusters that is not
// complete (RES-2).
const listWait = time.Second

// acksOf says which acknowledgements of a type are outstanding.
func (st *stream) acksOf(typeURL string) cache.Acks {
	t := st.typed(typeURL)
	switch {
	case t == nil || t.acked >= t.sent:
		return cache.Acknowledged
	case st.now.Before(t.patience(st.server.limits.Load().AckWait)):
		return cache.Awaited
	}
	return cache.Overdue
}

// patience is when the first type's next response does not wait for an acknowledgement any
// longer; zero if none waits.
func (st *stream) patience() (first time.Time) {
	wait := st.server.limits.Load().AckWait
	for _, t := range st.types {
		if t.acked < t.sent {
			if at := t.patience(wait); st.now.Before(at) {
				first = earlier(first, at)
			}
		}
	}
	return first
}

// earlier is the earlier of two times, where zero is never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// send hands one response to the stream. It blocks while the client does not
// read.
func (st *stream) send(b *cache.Batch) error {
	t := st.typed(b.TypeURL)
	if t.acked < t.sent && st.acksOf(t.url) == cache.Overdue {
		st.server.observer.Overdue(t.url)
	}
	if st.variant.form == stateForm {
		st.attach(t, b)
	}
	st.identify(&b.Body)
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
	if !b.Renewal {
		t.told = st.nonce
	}
	if !b.Removal && !b.Renewal && resources > 0 && (b.Rank == cache.RankCluster || b.Rank == cache.RankListener) {
		st.parent = st.nonce
	}
	st.tell(t, b, verdict.Word{Kind: verdict.Sent})
	t.note(st.nonce, b)
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
