package downstream

import (
	"log/slog"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// acknowledge takes an ACK or a NACK: a NACK has error_detail (ACK-1). Either way the response is
// answered. Rejected content is sent again when it changes, or there is another reason (ACK-3).
// number is that of the response; zero if the nonce is of no response.
func (st *stream) acknowledge(t *typeState, r *discoveryRequest, number uint64) {
	if !t.flow.owed(number) {
		return // stale, or of no response: a client may send such nonces as often as it likes
	}
	st.unread.acknowledged(number, st.nonces.last)
	now := time.Now()
	if r.rejection != nil {
		st.rejected(t, r, number, now)
	}
	st.settle(t, r, t.flow.acknowledge(number))
	if !t.flow.idle() {
		return
	}
	if !t.flow.received.IsZero() {
		st.shared.observer.Acknowledged(t.url, now.Sub(t.flow.received))
		t.flow.received = time.Time{}
	}
	if r.rejection == nil {
		st.standing.edit(func() { t.status.Acknowledged = true })
		st.reconsider(t)
	}
}

// reconsider has the client no longer count as one that rejects something of the type, if nothing
// of that is left.
func (st *stream) reconsider(t *typeState) {
	if t.reconsider(st.subscriber) && !st.types.rejecting() {
		st.shared.siblings.leave(st.standing.node, st)
	}
}

// rejected counts, logs and shows a rejection. Where the client only warns it makes the request an acceptance.
func (st *stream) rejected(t *typeState, r *discoveryRequest, number uint64, now time.Time) {
	if warned := r.takeWarnings(); warned != "" {
		st.shared.observer.Warned(t.url)
		st.log(slog.LevelInfo).Info("client accepted a response with warnings", "type", t.url, "nonce", number, "warnings", warned)
		return
	}
	t.rejecting = true
	nack := newNack(r.nonce, t.systemVersion, r.rejection, now)
	nack.Held = t.held()
	st.shared.observer.Nacked(t.url, nackReason(nack.Message))
	st.log(slog.LevelWarn).Warn("client rejected a response", "type", t.url, "nonce", number, "reason", nack.Message)
	st.standing.edit(func() {
		t.status.Nacks++
		t.status.LastNack = nack
	})
}

// settle tells the stores and the control planes how the client answered a response. b is nil if the
// stream does not have the response any more.
func (st *stream) settle(t *typeState, r *discoveryRequest, b *delivery.Batch) {
	if r.rejection == nil {
		st.shared.observer.Acked(t.url)
	}
	if b == nil || b.Store == nil {
		return
	}
	place := st.subscriber.Place(b.Store)
	if r.rejection == nil {
		st.tell(t, b, ack.Outcome{Kind: ack.Accepted})
		st.accepted(t, b)
		if st.subscriber.Accepted(place, b) {
			st.calm = false
		}
		if b.Leads() && !st.variant.aggregated() { // else the stream sees for itself what it rejects
			st.shared.siblings.accepts(st.standing.node, st, time.Now())
		}
		return
	}
	parts := st.subscriber.Rejected(place, b)
	st.tell(t, b, ack.Outcome{Kind: ack.Rejected, Parts: parts, Reason: st.standing.node + ": " + reason(r.rejection)})
	if st.shared.siblings.rejects(st.standing.node, st, t.flow.answered()) {
		st.subscriber.Offer()
	}
	st.calm = false // the good part of the response is sent again (ACK-3)
}

// accepted notes from which scope the client has the type, once on a stream (ACK-4).
func (st *stream) accepted(t *typeState, b *delivery.Batch) {
	if t.accepted {
		return
	}
	var room [1]delivery.Part
	t.accepted = st.routing.routes.Accepted(b.Store, t.url)
	for _, part := range b.Parts(room[:0]) {
		t.accepted = t.accepted || st.routing.routes.Accepted(part.Store, t.url)
	}
}

// tell tells the control planes that the client was sent a response, or how it answered (ACK-7).
func (st *stream) tell(t *typeState, b *delivery.Batch, w ack.Outcome) {
	if !st.routing.routes.Listens() {
		return
	}
	w.TypeURL, w.Relay, w.PartOf = t.url, st.subscriber.Form().Relay, b.PartOf()
	var room [1]delivery.Part
	st.routing.tell(w, b.Parts(room[:0]), &t.flow)
}
