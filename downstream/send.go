package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// send hands one response to gRPC. It blocks while the client does not read.
func (st *stream) send(b *delivery.Batch) error {
	t, observer := st.types.of(b.TypeURL), st.shared.observer
	if t.flow.acks(st.types.now, st.types.wait) == delivery.Overdue {
		observer.Overdue(t.url)
	}
	state := st.variant.form == stateForm
	if state {
		t.refusals.attach(b, st.shared.limits.Load().room(), t.full)
	}
	if id := st.identified.next(st.shared.identifier.Load(), st.subscriber.Places()); id != "" {
		b.Body.SetControlPlane(id, state)
	}
	resources, removed := b.Body.Resources(), b.Body.Removed() // Finish empties it
	st.nonces.last++
	number := st.nonces.last
	msg := b.Body.Finish(b.TypeURL, b.SystemVersion, st.nonces.of(number))
	bytes := msg.Len()
	if st.unread.mayBlock() {
		st.sender.leave()
		st.joined() // others are not to wait for this client
	}
	if err := st.link.grpc.SendMsg(msg); err != nil {
		return err
	}
	st.unread.sent(bytes)
	st.noteSent(t, b, number, size{resources, removed, bytes})
	return nil
}

// size is what a response holds.
type size struct{ resources, removed, bytes int }

// noteSent notes a response that was sent. It is apart from send: what it needs of the stack would
// otherwise be there while gRPC sends, for every client.
func (st *stream) noteSent(t *typeState, b *delivery.Batch, number uint64, is size) {
	now := time.Now()
	st.tell(t, b, ack.Outcome{Kind: ack.Sent}) // before flow counts it among those that are not answered
	b.Held = t.held()
	t.flow.send(number, b, now)
	t.systemVersion = b.SystemVersion
	if !b.Removal && !b.Renewal && is.resources > 0 && (b.Rank == xds.RankCluster || b.Rank == xds.RankListener) {
		st.types.parent = number
	}
	st.shared.observer.Sent(t.url, is.resources, is.removed, is.bytes, b.Merged)
	if b.Offered() {
		st.shared.observer.Offered(t.url)
	}
	if !b.Received.IsZero() {
		st.shared.observer.Propagated(t.url, now.Sub(b.Received))
	}
	st.standing.edit(func() { t.status.sent(is.resources, is.bytes, now) })
}
