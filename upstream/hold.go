package upstream

import (
	"errors"
	"math"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
)

// heldAck is an answer that waits for the clients' (ACK-7), or for the answers of its type
// before it: the control plane gets them in order.
type heldAck struct {
	envelope

	heard *hearing // what clients make of the response; nil: nothing is to be waited for
}

// hearing is what clients have made so far of one response of the control plane. It is
// guarded by Session.mu.
type hearing struct {
	typeURL string
	changes verdict.Span // of the store, that the response brought
	sent    bool         // to a client
	// due is when it is waited for no longer: nack_wait after the first client was sent the
	// content, and twice that after the response came at most.
	due      time.Time
	accepted []uint64 // the clients that accepted all that they were sent of it
	decided  bool
	reason   error // why the first client that has decided rejected it; nil: none did
}

// expect begins to listen to what clients make of the response that is about to be applied:
// they may have it before the store says so. It gives nil if nobody waits for them.
func (s *Session) expect(typeURL string, at time.Time) *hearing {
	wait := s.up.cfg.NackWait
	if wait == 0 {
		return nil
	}
	h := &hearing{
		typeURL: typeURL, due: at.Add(2 * wait),
		changes: verdict.Span{First: s.store.Sequence() + 1, Last: math.MaxUint64},
	}
	s.mu.Lock()
	s.hearings = append(s.hearings, h)
	s.hearing.Store(int32(len(s.hearings)))
	s.mu.Unlock()
	return h
}

// dismiss ends the listening. It takes nil.
func (s *Session) dismiss(h *hearing) {
	if h == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hearings = slices.DeleteFunc(s.hearings, func(o *hearing) bool { return o == h })
	s.hearing.Store(int32(len(s.hearings)))
}

// Tell tells the session what became of content with a client (ACK-7). It may be called from
// any goroutine, and does not block.
func (s *Session) Tell(w verdict.Word) {
	if s.hearing.Load() == 0 {
		return
	}
	now := time.Now()
	news := false
	s.mu.Lock()
	for _, h := range s.hearings {
		if h.typeURL == w.TypeURL && !h.decided && h.changes.Touches(w.Of) {
			news = h.hear(&w, now, &s.up.cfg) || news
		}
	}
	s.mu.Unlock()
	if news {
		select {
		case s.heard <- struct{}{}:
		default:
		}
	}
}

// hear takes one word, and reports whether that changes what the answer will be, or when.
func (h *hearing) hear(w *verdict.Word, now time.Time, cfg *Config) bool {
	switch w.Kind {
	case verdict.Sent:
		if h.sent {
			return false
		}
		h.sent = true
		if due := now.Add(cfg.NackWait); due.Before(h.due) {
			h.due = due
		}
	case verdict.Accepted:
		// Of a response in parts the last one decides.
		if (w.Open != 0 && w.Open <= h.changes.Last) || slices.Contains(h.accepted, w.Client) {
			return false
		}
		h.accepted = append(h.accepted, w.Client)
		h.decided = len(h.accepted) >= cfg.NackAcks
		return h.decided
	case verdict.Rejected:
		// With other content beside it nobody knows yet which of them is bad (ACK-3).
		if w.Parts && !w.Of.Within(h.changes) {
			return false
		}
		h.decided, h.reason = true, errors.New(w.Reason)
	}
	return true
}

// hold keeps an ACK back, if clients are sent what the response brought, or an answer before
// it for the type is held. before is the store's last change before the response.
func (s *Session) hold(l *line, e envelope, h *hearing, before uint64) bool {
	if h == nil {
		return false
	}
	last := s.store.Sequence()
	if last == before || !s.store.Heard() {
		s.dismiss(h)
		if !l.holds(e.typeURL) {
			return false
		}
		h = nil
	} else {
		s.mu.Lock()
		h.changes.Last = last
		s.mu.Unlock()
	}
	l.held = append(l.held, heldAck{e, h})
	s.answerHeld(l, time.Now()) // a client may have been quick
	return true
}

func (l *line) holds(typeURL string) bool { return holds(l.held, typeURL) }

func holds(held []heldAck, typeURL string) bool {
	return slices.ContainsFunc(held, func(h heldAck) bool { return h.typeURL == typeURL })
}

// heldUntil is when the first held answer is due, zero if none is.
func (s *Session) heldUntil(l *line) (at time.Time) {
	if len(l.held) == 0 {
		return time.Time{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range l.held {
		if h.heard != nil && !h.heard.decided {
			at = earlier(at, h.heard.due)
		}
	}
	return at
}

// decided reports whether an answer waits for no client any longer, and why it is a NACK.
func (s *Session) decided(h *hearing, now time.Time) (done bool, reason error) {
	if h == nil {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h.decided = h.decided || !now.Before(h.due)
	return h.decided, h.reason
}

// answerHeld writes the answers that need not be held any longer. An ACK waits for those of
// its type before it. Those before a NACK were not objected to so far, and are not held up
// further.
func (s *Session) answerHeld(l *line, now time.Time) {
	var kept []heldAck
	for _, h := range l.held {
		done, reason := s.decided(h.heard, now)
		switch {
		case reason != nil:
			kept = s.acknowledge(l, kept, h.typeURL)
			s.answerOne(l, h, &clientError{reason})
		case done && !holds(kept, h.typeURL):
			s.answerOne(l, h, nil)
		default:
			kept = append(kept, h)
		}
	}
	l.held = kept
}

// acknowledgeType writes the answers that are held for a type: a later response of it is about
// to be answered, or the next request answers them.
func (s *Session) acknowledgeType(l *line, typeURL string) {
	l.held = s.acknowledge(l, l.held, typeURL)
}

// acknowledge writes those of the held answers that are for a type, and gives the others.
func (s *Session) acknowledge(l *line, held []heldAck, typeURL string) (others []heldAck) {
	for _, h := range held {
		if h.typeURL == typeURL {
			s.answerOne(l, h, nil)
		} else {
			others = append(others, h)
		}
	}
	return others
}

func (s *Session) answerOne(l *line, h heldAck, reason error) {
	s.dismiss(h.heard)
	if l.draining {
		return // nothing can be written any more, and the nonce ends with the stream
	}
	s.answer(l, h.envelope, reason, time.Now())
}

// forgetHeld forgets the answers of a stream that has ended: their nonces mean nothing any
// more (STR-3).
func (s *Session) forgetHeld(l *line) {
	for _, h := range l.held {
		s.dismiss(h.heard)
	}
	l.held = nil
}
