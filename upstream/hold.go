package upstream

import (
	"errors"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// maxUnheard is how many waits in a row may run out. Then the responses of the type are acknowledged at
// once, until a client answers in time again (ACK-7).
const maxUnheard = 3

// ackHold keeps the ACK of the last response of each type back until clients have accepted its
// content, and makes it a NACK if they reject it (ACK-7). Clients may speak from any goroutine. All
// else belongs to the session's owner.
//
// The next response of a type ends the wait for the one before it. So there is one answer for each
// type and stream, and a word of a client costs the same with any number of responses.
type ackHold struct {
	// Immutable after newAckHold.
	nack Nack   // nothing is held if Wait is zero
	ring func() // an answer may be ready, or due at another time
	log  *slog.Logger

	count atomic.Int32 // len(types): mostly zero, so that words cost nothing

	mu    sync.Mutex
	types map[heldKey]*heldType // those with an answer that is held, or with waits that ran out
	spare *heldType             // of an answer that was written, for the next one
}

// heldKey is a type on one of its two streams (SUB-12).
type heldKey struct {
	typeURL string
	second  bool
}

// heldType is the last response of a type on a stream. ackHold.mu guards it.
type heldType struct {
	answer  heldAnswer
	held    bool // the answer was not written
	heard   bool // clients have decided, or are not listened to any longer
	unheard int  // waits in a row that ran out
}

// heldAnswer is the answer of one response, with the answers of clients so far.
type heldAnswer struct {
	envelope

	link     *streamLink
	response *wire.Received
	// changes are the changes of the Store that the response brought. Last is open until the Store has
	// applied the response.
	changes ack.Span
	// due is when the relay waits no longer: Nack.Wait after the first client was sent the content, and at
	// most twice that after the response arrived if none was.
	due   time.Time
	late  bool // the time is over, and no client has decided
	again bool // it has the content that clients made the relay reject last
	parts bool // a client that rejected it is sent it once more in parts
	// Clients that were sent content of the response, and those of them that rejected it.
	sent, rejected int
	reason         error // why the first of them did; nil: the answer is an ACK
}

func newAckHold(nack Nack, log *slog.Logger, ring func()) *ackHold {
	return &ackHold{nack: nack, log: log, ring: ring, types: make(map[heldKey]*heldType)}
}

// tell takes a client's word about content. It does not block.
func (h *ackHold) tell(w ack.Outcome) {
	if h.count.Load() == 0 || w.Of.Empty() {
		return
	}
	news := false
	h.mu.Lock()
	for _, second := range []bool{false, true} {
		key := heldKey{w.TypeURL, second}
		if t := h.types[key]; t != nil && t.answer.changes.Touches(w.Of) {
			news = h.hear(key, t, &w) || news
		}
	}
	h.mu.Unlock()
	if news {
		h.ring()
	}
}

// hear takes a word about the last response of a type. It reports whether the answer may be ready, or
// due at another time. The caller holds mu.
func (h *ackHold) hear(key heldKey, t *heldType, w *ack.Outcome) (news bool) {
	a, now := &t.answer, time.Now()
	switch {
	case t.heard, !now.Before(a.due):
		return false
	case w.Kind == ack.Sent:
		if !w.PartOf.Empty() || w.Open >= a.changes.First {
			return false // the client was sent some of it before
		}
		if a.sent++; a.sent > 1 {
			return false
		}
		a.due = now.Add(h.nack.wait(w.Relay))
	case !h.decides(a, w):
		return false
	default:
		t.heard, t.unheard = true, 0
		h.keep(key, t)
	}
	return t.held
}

// decides takes a client's answer, and reports whether it decides the relay's.
func (h *ackHold) decides(a *heldAnswer, w *ack.Outcome) bool {
	if w.Kind == ack.Rejected {
		// With other content in the response nobody knows yet which of it is bad (ACK-3). If clients
		// reject content as a whole and again in its parts, the whole counts, for the response that brought it.
		if w.Parts && !w.Of.Within(a.changes) || w.PartOf.Within(a.changes) && !a.again {
			return false
		}
		a.rejected++
		a.parts = w.Parts
		if a.reason == nil {
			a.reason = errors.New(w.Reason)
		}
		return float64(a.rejected) >= h.nack.Share*float64(a.sent)
	}
	if !w.PartOf.Empty() || w.Open != 0 && w.Open <= a.changes.Last {
		return false // the client rejected the rest, or has not answered the last part of the response
	}
	a.reason = nil
	return true
}

// expect begins to listen to clients about a response that the Store is about to apply: clients may
// answer before the Store returns. before is the Store's last change. Of content that clients made the
// relay reject last they may speak by the changes that brought it then: last has these, and is nil
// for other content.
func (h *ackHold) expect(k *streamLink, e envelope, r *wire.Received, before uint64, last *nack, at time.Time) {
	key := heldKey{e.typeURL, k.line.id.Second}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.types[key]
	if t == nil {
		if t = h.spare; t == nil {
			t = new(heldType)
		}
		h.spare = nil
		h.types[key] = t
		h.count.Add(1)
	}
	*t = heldType{unheard: t.unheard, held: t.unheard < maxUnheard, answer: heldAnswer{
		envelope: e, link: k, response: r, due: at.Add(2 * h.nack.Wait),
		changes: ack.Span{First: before + 1, Last: math.MaxUint64},
	}}
	if last != nil {
		t.answer.again, t.answer.changes.First = true, last.changes.First
	}
}

// applied says what changes the response of a type brought, which clients are sent if heard is set. It
// reports whether its answer is held.
func (h *ackHold) applied(k *streamLink, typeURL string, changes ack.Span, heard bool) (held bool) {
	key := heldKey{typeURL, k.line.id.Second}
	h.mu.Lock()
	defer h.mu.Unlock()
	t := h.types[key]
	if t == nil {
		return false // a client was quick, and the answer was not held
	}
	t.answer.changes = changes
	if t.heard || heard {
		return t.held
	}
	h.stop(key, t)
	return false
}

// forget stops to listen about the last response of a type, which the Store rejected.
func (h *ackHold) forget(k *streamLink, typeURL string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{typeURL, k.line.id.Second}
	if t := h.types[key]; t != nil {
		h.stop(key, t)
	}
}

// ready removes and returns an answer that is not held any longer. ok is false if there is none.
func (h *ackHold) ready(now time.Time) (a heldAnswer, ok bool) {
	if h.count.Load() == 0 {
		return heldAnswer{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, t := range h.types {
		switch {
		case !t.held:
		case t.heard:
			return h.take(key, t), true
		case !now.Before(t.answer.due):
			t.heard, t.answer.reason, t.answer.late = true, nil, true
			if t.answer.again {
				return h.take(key, t), true // clients may be offered it later
			}
			if t.unheard++; t.unheard == maxUnheard {
				h.log.Debug("no client answers within nack_wait: responses are acknowledged at once until one does", "type", key.typeURL)
			}
			return h.take(key, t), true
		}
	}
	return heldAnswer{}, false
}

// release removes and returns the answer that is held for a type on a stream: something else is to be
// said there. ok is false if there is none.
func (h *ackHold) release(k *streamLink, typeURL string) (a heldAnswer, ok bool) {
	if h.count.Load() == 0 {
		return heldAnswer{}, false
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	key := heldKey{typeURL, k.line.id.Second}
	t := h.types[key]
	if t == nil || !t.held {
		return heldAnswer{}, false
	}
	if !t.heard {
		t.answer.reason = nil
	}
	return h.take(key, t), true
}

// drop forgets the answers of a stream that has ended: their nonces mean nothing any more (STR-3).
func (h *ackHold) drop(k *streamLink) {
	if h.count.Load() == 0 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for key, t := range h.types {
		if t.answer.link == k {
			h.stop(key, t)
		}
	}
}

// take gives an answer that is to be written. The caller holds mu.
func (h *ackHold) take(key heldKey, t *heldType) heldAnswer {
	a := t.answer
	t.held, t.answer.response = false, nil
	h.keep(key, t)
	return a
}

// stop ends the wait for clients. The caller holds mu.
func (h *ackHold) stop(key heldKey, t *heldType) {
	t.held, t.heard, t.answer = false, true, heldAnswer{}
	h.keep(key, t)
}

// keep forgets a type of which there is nothing to remember. The caller holds mu.
func (h *ackHold) keep(key heldKey, t *heldType) {
	if t.held || t.unheard > 0 {
		return
	}
	delete(h.types, key)
	h.count.Add(-1)
	*t = heldType{}
	h.spare = t
}

// next is when the first answer is due, zero if none is held.
func (h *ackHold) next() (at time.Time) {
	if h.count.Load() == 0 {
		return time.Time{}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, t := range h.types {
		if t.held {
			at = notify.Earlier(at, t.answer.due)
		}
	}
	return at
}
