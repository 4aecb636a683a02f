package upstream

import (
	"errors"
	"slices"
	"sort"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/verdict"
)

// heldAnswer is the answer of one response that waits for clients, or for the answers of
// its type before it. ackHold.mu guards it.
type heldAnswer struct {
	envelope

	link *streamLink
	// changes are the changes of the Store that the response brought. Last is open until
	// the Store has applied the response.
	changes verdict.Span
	// due is when the relay waits no longer: nack_wait after the first client was sent the
	// content, and at most twice nack_wait after the response arrived.
	due     time.Time
	decided bool  // a client accepted all that it was sent of the content, or rejected it, or none is to say
	reason  error // why the first client that decided rejected the content; nil: none did

	// afterUnsent and afterOpen lead to a later position once the answer was sent, or was
	// decided; zero before. See heldQueue.from.
	afterUnsent, afterOpen int
}

// unsent selects the answers whose content no client was sent yet.
func unsent(a *heldAnswer) *int { return &a.afterUnsent }

// open selects the answers that are not decided.
func open(a *heldAnswer) *int { return &a.afterOpen }

// heldQueue has the held answers of one type on one stream in their order, in which the
// control plane receives them. An answer keeps its position as long as it is held. The
// spans of the answers do not overlap, so they are in the same order.
type heldQueue struct {
	answers  []*heldAnswer
	first    int // position of answers[0]
	rejected int // position after the last answer that a client rejected
}

func (q *heldQueue) end() int               { return q.first + len(q.answers) }
func (q *heldQueue) at(pos int) *heldAnswer { return q.answers[pos-q.first] }
func (q *heldQueue) push(a *heldAnswer)     { q.answers = append(q.answers, a) }
func (q *heldQueue) decide(pos int, err error) {
	a := q.at(pos)
	a.decided, a.reason = true, err
	a.afterUnsent, a.afterOpen = pos+1, pos+1
	if err != nil {
		q.rejected = max(q.rejected, pos+1)
	}
}

// from returns the first position, from pos on, of an answer that set selects. It shortens
// the way past the answers that are selected no longer, so that later words do not walk
// all of it again.
func (q *heldQueue) from(pos int, set func(*heldAnswer) *int) int {
	for pos < q.end() {
		next := set(q.at(pos))
		if *next == 0 {
			break
		}
		if *next < q.end() {
			if further := *set(q.at(*next)); further != 0 {
				*next = further
			}
		}
		pos = *next
	}
	return pos
}

// hear takes one word, and reports whether the word changes an answer, or when it is due.
// Besides a binary search it looks only at the answers that the word can change.
func (q *heldQueue) hear(w *verdict.Word, now time.Time, wait time.Duration) (news bool) {
	set := open
	if w.Kind == verdict.Sent {
		set = unsent
	}
	start := sort.Search(len(q.answers), func(i int) bool { return q.answers[i].changes.Last >= w.Of.First })
	for pos := q.from(q.first+start, set); pos < q.end(); pos = q.from(pos+1, set) {
		a := q.at(pos)
		if a.changes.First > w.Of.Last {
			break
		}
		switch {
		case !now.Before(a.due):
			q.decide(pos, nil)
		case w.Kind == verdict.Sent:
			a.afterUnsent = pos + 1
			if due := now.Add(wait); due.Before(a.due) {
				a.due = due
			}
			news = true
		case w.Kind == verdict.Rejected:
			// With other content in the list nobody knows yet which of it is bad (ACK-3).
			if w.Parts && !w.Of.Within(a.changes) {
				return news
			}
			q.decide(pos, errors.New(w.Reason))
			news = true
		case w.Open != 0 && w.Open <= a.changes.Last:
			return news // the client has not answered the last part of the response
		default:
			q.decide(pos, nil)
			news = true
		}
	}
	return news
}

// ready removes and returns the answers that are not held any longer. An ACK waits for the
// answers before it. The answers before a NACK were not objected to so far, and do not
// hold it up.
func (q *heldQueue) ready(now time.Time) (out []*heldAnswer) {
	n := 0
	for ; n < len(q.answers); n++ {
		if a := q.answers[n]; q.first+n >= q.rejected && !a.decided && now.Before(a.due) {
			break
		}
	}
	return q.take(n)
}

// take removes and returns the first n answers.
func (q *heldQueue) take(n int) []*heldAnswer {
	out := slices.Clone(q.answers[:n])
	clear(q.answers[:n])
	q.answers = q.answers[n:]
	q.first += n
	return out
}
