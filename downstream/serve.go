package downstream

import (
	"errors"
	"io"
)

// serve takes the client's requests, carries them out and answers them. Senders send everything that
// is due later.
func (st *stream) serve() error {
	for {
		r, err := st.variant.receive(st.link.grpc)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := st.answer(&r); err != nil {
			return err
		}
	}
}

// answer carries out a request and sends everything that is due then.
func (st *stream) answer(r *discoveryRequest) error {
	st.owner.take()
	defer st.yield()
	st.reroute()
	if err := st.request(r); err != nil {
		return err
	}
	if st.calm && !st.bell.rung.Load() {
		return nil // most requests are acknowledgements, after which nothing is due
	}
	if err := st.deliver(); err != nil {
		return st.link.close(err) // before a sender becomes the owner, which might send
	}
	return nil
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
	st.alarm.stop()
	if st.departure != nil {
		st.departure.Stop()
	}
	for _, t := range st.types.list {
		st.shared.try(func() {
			st.shared.observer.Subscribed(t.url, -t.status.Subscriptions)
			t.reject(st.shared.observer, false)
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
