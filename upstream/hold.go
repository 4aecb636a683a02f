package upstream

import (
	"errors"
	"slices"
	"time"
)

// maxRejections bounds what clients' rejections may wait for the session to look
// at them: one is enough for each response, and few are held at a time.
const maxRejections = 64

// rejection is a client's word that it cannot use what a change brought.
type rejection struct {
	typeURL string
	change  uint64
	reason  string
}

// heldAck is an answer that waits for the clients' (ACK-7): it becomes a NACK if
// one of them rejects a change that the response brought.
type heldAck struct {
	envelope

	after, last uint64 // the response brought the changes in between, last included
	due         time.Time
}

// Reject tells the session that a client rejected a response of the relay's whose
// youngest change has this number (Store.Sequence). If the control plane's response
// that brought it is not acknowledged yet, it is rejected with this reason. It may
// be called from any goroutine and never blocks.
func (s *Session) Reject(typeURL string, change uint64, reason string) {
	s.mu.Lock()
	if len(s.rejections) < maxRejections {
		s.rejections = append(s.rejections, rejection{typeURL, change, reason})
	}
	s.mu.Unlock()
	select {
	case s.rejected <- struct{}{}:
	default:
	}
}

// hold keeps an ACK back, if that is wanted and the response changed something, or
// one before it for the type is held: the control plane gets its answers in order.
func (s *Session) hold(l *line, e envelope, before uint64, now time.Time) bool {
	if s.up.cfg.NackWait == 0 {
		return false
	}
	last := s.store.Sequence()
	if last == before && !l.holds(e.typeURL) {
		return false
	}
	l.held = append(l.held, heldAck{e, before, last, now.Add(s.up.cfg.NackWait)})
	return true
}

func (l *line) holds(typeURL string) bool {
	for _, h := range l.held {
		if h.typeURL == typeURL {
			return true
		}
	}
	return false
}

// heldUntil is when the first held answer is due, zero if none is.
func (l *line) heldUntil() time.Time {
	if len(l.held) == 0 {
		return time.Time{}
	}
	return l.held[0].due
}

// acknowledgeHeld writes the answers that nobody objected to in time.
func (s *Session) acknowledgeHeld(l *line, now time.Time) {
	for len(l.held) > 0 && !now.Before(l.held[0].due) {
		s.answerHeld(l, l.held[0], nil)
		l.held = l.held[1:]
	}
}

// rejectHeld turns held answers into rejections. Those for the same type before
// them were not objected to so far, and are not held up further.
func (s *Session) rejectHeld() {
	s.mu.Lock()
	rejections := s.rejections
	s.rejections = nil
	s.mu.Unlock()
	for _, r := range rejections {
		for _, l := range s.lines {
			s.rejectOn(l, r)
		}
	}
}

func (s *Session) rejectOn(l *line, r rejection) {
	for i, h := range l.held {
		if h.typeURL != r.typeURL || r.change <= h.after || r.change > h.last {
			continue
		}
		s.acknowledgeType(l, h.typeURL, i)
		i = slices.Index(l.held, h)
		l.held = slices.Delete(l.held, i, i+1)
		s.answerHeld(l, h, errors.New(r.reason))
		return
	}
}

// acknowledgeType writes the answers that are held for a type among the first n: a
// later response of the type is about to be rejected, and the control plane gets its
// answers in order.
func (s *Session) acknowledgeType(l *line, typeURL string, n int) {
	var others []heldAck
	for _, h := range l.held[:n] {
		if h.typeURL == typeURL {
			s.answerHeld(l, h, nil)
		} else {
			others = append(others, h)
		}
	}
	l.held = append(others, l.held[n:]...)
}

func (s *Session) answerHeld(l *line, h heldAck, reason error) {
	if l.draining {
		return // nothing can be written any more, and the nonce ends with the stream
	}
	s.answer(l, h.envelope, reason, time.Now())
}
