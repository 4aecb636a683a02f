package downstream

import (
	"errors"
	"io"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

var errNoRequest = status.Error(codes.DeadlineExceeded, "the stream has had no request for too long: a client sends its first one at once")

// serve takes the client's requests, carries them out and answers them. Senders send everything that
// is due later.
func (st *stream) serve() error {
	if most := st.shared.limits.Load().PerClient.FirstRequest; most > 0 {
		st.departure = time.AfterFunc(most, func() {
			if st.link.close(errNoRequest) == errNoRequest { //nolint:errorlint // the very error: whether this ended the stream
				st.shared.observer.Limited(LimitFirstRequest)
			}
		})
	}
	for {
		r, err := st.variant.receive(st.link.grpc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if waits, err := st.waits(&r); err != nil {
			return err
		} else if waits {
			continue
		}
		charged, err := st.carry(&r)
		if err != nil {
			return err
		}
		if charged && !st.await() {
			return status.FromContextError(st.link.grpc.Context().Err()).Err()
		}
	}
}

// carry has the client join, and answers a request.
func (st *stream) carry(r *discoveryRequest) (charged bool, err error) {
	if err := st.join(r); err != nil {
		return false, err
	}
	return st.answer(r)
}

// keep has the stream not end for lack of requests.
func (st *stream) keep() {
	if st.departure != nil {
		st.departure.Stop()
		st.departure = nil
	}
}

// join waits until the client may join, at the stream's first request, which it releases if the client may
// not. It stands before answer: the stack of a stream that waits, or is at rest, is not deeper for it. From
// then on the stream need not end for lack of requests.
func (st *stream) join(r *discoveryRequest) (err error) {
	if st.subscriber != nil {
		return nil
	}
	st.keep()
	a := st.shared.admission
	if a == nil {
		return nil
	}
	if st.joining, err = a.Join(st.link.grpc.Context(), quota.ClientOf(&st.standing.peer)); err != nil {
		st.link.refused = status.Code(err) == codes.Unavailable // else the client has gone
		r.release()
	}
	return err
}

// requestBurst is how many seconds' worth of a stream's requests are read at once (LIM-1).
const requestBurst = 10 * time.Second

// await charges a request that was carried out, and waits until the next one may be read. It reports
// false if the stream ends before.
func (st *stream) await() bool {
	wait := st.pace.Next(time.Since(st.standing.since), st.shared.limits.Load().PerClient.RequestsPerSecond, requestBurst)
	if wait == 0 {
		return true
	}
	st.shared.observer.Limited(LimitRequests)
	return retry.Sleep(st.link.grpc.Context(), wait)
}

// answer carries out a request and sends everything that is due then. With the first one the client has
// joined. charged is that of request.
func (st *stream) answer(r *discoveryRequest) (charged bool, err error) {
	st.owner.take()
	defer st.yield()
	defer st.joined() // before a sender becomes the owner, which might end the turn too
	st.reroute()
	if charged, err = st.request(r); err != nil {
		return charged, err
	}
	st.tellComeback(false)
	if st.calm && !st.bell.rung.Load() && !st.owner.retires.Load() {
		return charged, nil // most requests are acknowledgements, after which nothing is due
	}
	if err := st.deliver(); err != nil {
		return charged, st.link.close(err) // before a sender becomes the owner, which might send
	}
	return charged, nil
}

// attend sends everything that is due, for a sender. If the stream has an owner, that looks again
// when it gives up the ownership.
func (st *stream) attend(by *sender) {
	st.bell.queued.Store(false)
	if !st.owner.try() {
		return
	}
	defer st.yield()
	if !st.bell.rung.Load() {
		return
	}
	st.sender = by
	defer func() { st.sender = nil }()
	if err := st.deliver(); err != nil {
		_ = st.link.close(err) // the handler returns it
	}
}

// close ends the stream's subscriptions.
func (st *stream) close() {
	if st.types.part != nil {
		st.types.part.End()
	}
	st.alarm.stop()
	st.joined()
	if st.departure != nil {
		st.departure.Stop()
	}
	if st.types.rejecting() {
		st.shared.siblings.leave(st.standing.node, st)
	}
	if st.shared.comebacks.some.Load() > 0 {
		st.shared.comebacks.leave(st.standing.node, st)
	}
	for _, t := range st.types.list {
		st.shared.try(func() {
			st.shared.observer.Subscribed(t.url, -t.status.Subscriptions)
		})
	}
	if st.subscriber != nil {
		for _, place := range st.subscriber.Places() {
			st.shared.try(place.Leave)
		}
	}
	if st.routing.routes != nil {
		st.shared.try(st.routing.routes.Close)
	}
}
