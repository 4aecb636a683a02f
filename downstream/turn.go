package downstream

import (
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
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

// writeQuota is how much gRPC takes of a stream before it has written it: beyond that
// SendMsg waits for the client to read. It says 64 KiB.
const writeQuota = 60 << 10

// frameHead is what it counts beside each response. It is counted here too, since a client
// may have thousands of tiny ones.
const frameHead = 5

// mayBlock reports whether the next response may have to wait for the client.
func (st *stream) mayBlock() bool { return st.written-st.read >= writeQuota }

// hasRead notes that the client has read all before the response with a nonce. Of that one
// it may have read no more than the nonce, which stands near its beginning.
func (st *stream) hasRead(nonce uint64) {
	before := st.written - uint64(st.last)
	switch {
	case nonce == st.nonce:
		st.read = before
	case nonce >= st.markNonce:
		st.read = st.mark
	default:
		return
	}
	st.markNonce, st.mark = st.nonce, before
}

// wakeIn has the stream rung after a time, if that is not zero. An alarm that is set for
// earlier is left alone: when it goes off the stream says again what it waits for, and one
// that is served often sets few.
func (st *stream) wakeIn(next time.Duration, now time.Time) {
	if !now.Before(st.alarmAt) {
		st.alarmAt = time.Time{} // it has gone off
	}
	at := now.Add(next)
	switch {
	case next == 0:
		if st.alarmAt.IsZero() {
			st.alarm = nil
		}
		return
	case st.alarm == nil:
		st.alarm = time.AfterFunc(next, st.ring)
	case st.alarmAt.IsZero(), at.Before(st.alarmAt):
		st.alarm.Reset(next)
	default:
		return
	}
	st.alarmAt = at
}

// statusWriter ends a gRPC stream with a status, as returning from its handler does, but
// from any goroutine: reading and sending fail from then on. gRPC's transport streams have
// it, though their public interface does not say so.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

var errEnds = status.Error(codes.Internal, "this version of gRPC cannot end a stream while it is read")

// end ends the stream: the reader returns, and whoever is sending. It may be called from any
// goroutine. Only the first reason counts, which it returns; nil is an end in good order.
func (st *stream) end(err error) error {
	st.mu.Lock()
	first := !st.ended
	if first {
		st.ended, st.failure = true, err
	}
	err = st.failure
	st.mu.Unlock()
	if first {
		// An error would say that the connection is gone, and the stream with it.
		_ = st.transport.WriteStatus(status.Convert(err))
	}
	return err
}

// transportOf gives what ends a stream.
func transportOf(g grpc.ServerStream) statusWriter {
	t, _ := grpc.ServerTransportStreamFromContext(g.Context()).(statusWriter)
	return t
}
