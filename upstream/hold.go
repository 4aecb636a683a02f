package upstream

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/moment"
	"github.com/xdsrelay/xdsrelay/internal/verdict"
)

// ackHold keeps ACKs back until clients have accepted the content of the responses, and makes
// them NACKs if a client rejects it (ACK-7). Clients may speak from any goroutine. All else
// belongs to the session's owner.
//
// A word of a client costs a binary search and the changes that it makes, and few words
// change anything: at thousands of responses per second thousands of answers are held.
type ackHold struct {
	// Immutable after newAckHold.
	wait time.Duration // zero: nothing is held
	ring func()        // an answer may be ready, or due at another time

	held atomic.Int32 // the number of answers: mostly zero, so that words cost nothing

	mu     sync.Mutex
	queues map[heldKey]*heldQueue // guarded by mu, with their answers; none is empty
}

// heldKey is a type on one of its two streams (SUB-12).
type heldKey struct {
	typeURL string
	second  bool
}

func newAckHold(wait time.Duration, ring func()) *ackHold {
	return &ackHold{wait: wait, ring: ring, queues: make(map[heldKey]*heldQueue)}
}

// tell takes a client's word about content. It does not block.
func (h *ackHold) tell(w verdict.Word) {
	if h.held.Load() == 0 || w.Of.Empty() {
		return
	}
	now, news := time.Now(), false
	h.mu.Lock()
	for _, second := range []bool{false, true} {
		if q := h.queues[heldKey{w.TypeURL, second}]; q != nil && q.hear(&w, now, h.wait) {
			news = true
		}
	}
	h.mu.Unlock()
	if news {
		h.ring()
	}
}

// expect begins to listen to clients about a response that the Store is about to apply:
// clients may answer before the Store returns. before is the Store's last change.
func (h *ackHold) expect(k *streamLink, e envelope, before uint64, at time.Time) *heldAnswer {
	a := &heldAnswer{
		envelope: e, link: k, due: at.Add(2 * h.wait), changes: verdict.Span{First: before + 1, Last: math.MaxUint64},
	}
	key := heldKey{e.typeURL, k.line.id.Second}
	h.mu.Lock()
	defer h.mu.Unlock()
	q := h.queues[key]
	if q == nil {
		q = new(heldQueue)
		h.queues[key] = q
	}
	q.push(a)
	h.held.Add(1)
	return a
}

// applied says what the response brought: the changes up to last, which clients are sent
// if heard is set. Otherwise its answer only waits for those before it.
func (h *ackHold) applied(a *heldAnswer, last uint64, heard bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a.changes.Last = last
	if q := h.queues[heldKey{a.typeURL, a.link.line.id.Second}]; !heard {
		q.decide(q.end()-1, nil)
	}
}

// forget removes a, the answer that was added last: the response was rejected. It takes nil.
func (h *ackHold) forget(a *heldAnswer) {
	if a == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{a.typeURL, a.link.line.id.Second}
	q := h.queues[key]
	q.answers = q.answers[:len(q.answers)-1]
	h.shrink(key, q, 1)
}

// ready removes and returns the answers that are not held any longer, in the order of
// their responses.
func (h *ackHold) ready(now time.Time) (out []*heldAnswer) {
	if h.held.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, q := range h.queues {
		ready := q.ready(now)
		h.shrink(key, q, len(ready))
		out = append(out, ready...)
	}
	slices.SortStableFunc(out, func(a, b *heldAnswer) int { return cmp.Compare(a.changes.First, b.changes.First) })
	return out
}

// release removes and returns the answers that are held for a type on a stream.
func (h *ackHold) release(k *streamLink, typeURL string) []*heldAnswer {
	if h.held.Load() == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{typeURL, k.line.id.Second}
	q := h.queues[key]
	if q == nil {
		return nil
	}
	out := q.take(len(q.answers))
	h.shrink(key, q, len(out))
	return out
}

// drop forgets the answers of a stream that has ended: their nonces mean nothing any more
// (STR-3).
func (h *ackHold) drop(k *streamLink) {
	if h.held.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, q := range h.queues {
		if q.answers[0].link == k {
			h.shrink(key, q, len(q.take(len(q.answers))))
		}
	}
}

// shrink counts answers that were removed from a queue. The caller holds mu.
func (h *ackHold) shrink(key heldKey, q *heldQueue, removed int) {
	h.held.Add(int32(-removed))
	if len(q.answers) == 0 {
		delete(h.queues, key)
	}
}

// next is when the first answer is due, zero if none is held. An answer behind another of
// its type is not written before that, so the first of each type counts.
func (h *ackHold) next() (at time.Time) {
	if h.held.Load() == 0 {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, q := range h.queues {
		at = moment.Earlier(at, q.answers[0].due)
	}
	return at
}
