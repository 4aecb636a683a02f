package downstream

import (
	"sync/atomic"
	"time"
)

// A stream's state is its owner's whose turn it is: of the goroutine that reads its
// requests, and carries them out, or of a sender. It is a slot and no mutex, since its owner
// may wait for the client to read.

// turn is that slot. Only the reader waits for it, and is handed it: a sender that has more
// to send would mostly be back before the reader has awoken.
type turn struct {
	state  atomic.Uint32
	handed chan struct{} // made by the reader when it has to wait for the first time
}

const (
	turnFree uint32 = iota
	turnTaken
	turnAwaited // taken, and the reader waits
)

// try takes the turn if it is nobody's.
func (t *turn) try() bool { return t.state.CompareAndSwap(turnFree, turnTaken) }

// take waits until it is the reader's.
func (t *turn) take() {
	if t.try() {
		return
	}
	if t.handed == nil {
		t.handed = make(chan struct{}, 1)
	}
	for !t.try() {
		if t.state.CompareAndSwap(turnTaken, turnAwaited) {
			<-t.handed // it stayed taken
			return
		}
	}
}

// give ends a turn.
func (t *turn) give() {
	if t.state.CompareAndSwap(turnTaken, turnFree) {
		return
	}
	t.state.Store(turnTaken)
	t.handed <- struct{}{}
}

// yield ends a turn of the stream's. Who rang in the meantime found it taken.
func (st *stream) yield() {
	st.turn.give()
	if st.rung.Load() {
		st.enqueue()
	}
}

// ring notes that there may be something to send. It may be called from any goroutine.
func (st *stream) ring() {
	st.rung.Store(true)
	st.enqueue()
}

func (st *stream) enqueue() {
	if !st.queued.Swap(true) {
		st.server.senders.push(st)
	}
}

// attend sends what the client lacks, unless it is another's turn, who looks again then.
func (st *stream) attend(w *sender) {
	st.queued.Store(false)
	if !st.turn.try() {
		return
	}
	defer st.yield()
	if !st.rung.Load() {
		return
	}
	st.sender = w
	defer func() { st.sender = nil }()
	if err := st.pass(); err != nil {
		_ = st.end(err) // the reader returns it
	}
}

// wakeAt has the stream rung at a time, if that is not zero. An alarm that is set for
// earlier is left alone: when it goes off the stream says again what it waits for, and one
// that is served often sets few.
func (st *stream) wakeAt(at, now time.Time) {
	if !now.Before(st.alarmAt) {
		st.alarmAt = time.Time{} // it has gone off
	}
	switch {
	case at.IsZero():
		if st.alarmAt.IsZero() {
			st.alarm = nil
		}
		return
	case st.alarm == nil:
		st.alarm = time.AfterFunc(at.Sub(now), st.ring)
	case st.alarmAt.IsZero(), at.Before(st.alarmAt):
		st.alarm.Reset(at.Sub(now))
	default:
		return
	}
	st.alarmAt = at
}
