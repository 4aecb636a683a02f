package cache

import "time"

// gaps is how many times the longest gap between two responses a quiet time takes at least.
const gaps = 3

// quietTime is which members of a collection the server has confirmed on the present stream,
// and when the collection has been quiet for long enough (RES-2, RES-14). Guarded by Store.mu.
type quietTime struct {
	answered time.Time     // the type's first response on the present stream; zero until then
	progress time.Time     // the last one that brought or confirmed a member; likewise
	gap      time.Duration // the longest time between two of them
	behind   bool          // the server was asked for the collection behind something that it had not answered

	// synced says that all members are here which the server had when it was asked. So any
	// other does not exist.
	synced  bool
	overdue bool   // the server was asked long ago on the present stream, and has not answered
	breaks  uint16 // how often an answer broke off before synced; a part that no server sent counts as one that did

	epoch uint32 // a member of another epoch is stale: not confirmed on the present stream
	stale int    // stale members

	// anew says that the server was silent about the members that it was shown: see askAnew.
	anew bool
}

// restart forgets the responses: a stream begins or ends, or none of them was an answer.
func (q *quietTime) restart() {
	q.answered, q.progress, q.gap, q.behind = time.Time{}, time.Time{}, 0, false
}

// answer records the first response after the server was asked. asked is when it was asked for the oldest thing that it had
// not answered. If that was not the collection, the response may be about that alone: the next one may take as long.
func (q *quietTime) answer(now, asked time.Time) {
	q.answered = now
	if q.behind && !asked.IsZero() {
		q.gap = max(q.gap, now.Sub(asked))
	}
}

// last is the time of the last response that counts.
func (q *quietTime) last() time.Time {
	if q.progress.After(q.answered) {
		return q.progress
	}
	return q.answered
}

// complete records that all members are here.
func (q *quietTime) complete() { q.synced, q.breaks, q.anew = true, 0, false }

// progressed records a response that brought or confirmed a member.
func (q *quietTime) progressed(now time.Time) {
	if last := q.last(); !last.IsZero() {
		q.gap = max(q.gap, now.Sub(last))
	}
	q.progress = now
}

// isStale reports whether a member was not confirmed on the present stream.
func (q *quietTime) isStale(e *Entry) bool { return e.epoch != q.epoch }

// enter takes in a new member. The server has just sent it.
func (q *quietTime) enter(e *Entry) { e.epoch = q.epoch }

// leave takes a member out.
func (q *quietTime) leave(e *Entry) {
	if q.isStale(e) {
		q.stale--
	}
}

// confirm records that the server named a member on the present stream.
func (q *quietTime) confirm(e *Entry, isNew bool, now time.Time) {
	switch {
	case isNew:
		q.progressed(now)
	case q.isStale(e):
		q.stale--
		q.progressed(now)
	}
	q.enter(e)
}

// trust makes a member count as confirmed.
func (q *quietTime) trust(e *Entry) {
	q.leave(e)
	q.enter(e)
}

// distrust makes a member count as not confirmed.
func (q *quietTime) distrust(e *Entry) {
	if !q.isStale(e) {
		e.epoch = q.epoch - 1
		q.stale++
	}
}

// trustAll makes all members count as confirmed, from the first one on: the server knows on
// the present stream that the relay holds them, and will name a member that it does not have.
func (q *quietTime) trustAll(first *Entry) {
	for e := first; e != nil && q.stale > 0; e = e.next {
		q.trust(e)
	}
}

// doubtAll makes all members stale. members is their number.
func (q *quietTime) doubtAll(members int) {
	q.epoch++
	q.stale = members
}

// doubt makes some members stale, and no others.
func (q *quietTime) doubt(first *Entry, some func(*Entry) bool) {
	q.epoch++
	q.stale = 0
	for e := first; e != nil; e = e.next {
		if some(e) {
			q.stale++
		} else {
			q.enter(e)
		}
	}
}

// end is when the quiet time of a collection ends; zero if there is none. The quiet time
// begins with the first answer. Members that are new or were not confirmed before prolong it:
// a large first state that is sent in many parts ends it late, and a collection that is never
// quiet ends it all the same. A collection that is not synced is complete after the time quiet
// (RES-2). The server has the time long to confirm members (RES-14).
func (q *quietTime) end(quiet, long time.Duration) time.Time {
	switch {
	case q.answered.IsZero():
		return time.Time{}
	case !q.synced:
		return q.last().Add(min(max(quiet, gaps*q.gap), long))
	case q.stale > 0:
		return q.last().Add(long)
	}
	return time.Time{}
}

// questions are when the server was asked for something of a table, and sent no response since.
type questions struct{ first, last time.Time }

// open reports whether there are any, from less than a time ago: of a name that does not exist a server may say nothing.
func (q *questions) open(now time.Time, within time.Duration) bool {
	return !q.first.IsZero() && now.Sub(q.first) < within
}

// ask adds one.
func (q *questions) ask(now time.Time, within time.Duration) {
	if !q.open(now, within) {
		q.first = now
	}
	q.last = now
}

// answer takes the first one out, and returns it. A response answers the others, too, or another one follows.
func (q *questions) answer() (first time.Time) {
	if first = q.first; q.last.After(first) {
		q.first = q.last
		return first
	}
	*q = questions{}
	return first
}
