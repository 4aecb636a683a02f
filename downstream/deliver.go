package downstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// maxParts is how many parts of one split response may be on their way together before the client
// acknowledges them.
const maxParts = 8

// listWait is how long listeners and routes wait for a list of clusters that is not complete
// (RES-2).
const listWait = time.Second

// deliver sends everything that is due, and sets the alarm for the next delivery. It clears the
// bell first: a later ring is for the next delivery.
func (st *stream) deliver() error {
	st.bell.rung.Store(false)
	if st.subscriber == nil {
		return nil // Reroute and Retire ring every stream, also one without a request
	}
	st.reroute()
	if st.types.rejecting() && st.shared.siblings.reason(st.standing.node, st) {
		st.subscriber.Offer()
	}
	if st.nonces.last == 0 {
		// A client uses its second server only if the stream ends before the first response (ABS-2).
		if open, err := st.shared.unserved(st.subscriber.Places(), st.variant.String()); open || err != nil {
			st.link.refused = err != nil
			return err
		}
	}
	if err := st.sendRefusals(); err != nil {
		return err
	}
	left, err := st.collect()
	if err != nil {
		return err
	}
	if err := st.sendUnattached(); err != nil {
		return err
	}
	held := st.subscriber.Held()
	st.calm = !held && st.variant.form != stateForm
	if left.More {
		st.bell.rung.Store(true) // requests come before the next parts
	}
	next := left.Next
	if held {
		next = notify.Earlier(next, st.types.patience())
	}
	if st.alarm.timer != nil || !next.IsZero() {
		st.alarm.set(next, time.Now(), st) // sending may have taken long
	}
	return st.retired(left.More, next)
}

// collect sends the changes that the stores have for the client.
func (st *stream) collect() (delivery.Outlook, error) {
	l := st.shared.limits.Load()
	st.types.now, st.types.wait = time.Now(), l.AckWait
	batches, left, err := st.subscriber.Collect(&delivery.Pace{
		Acks: st.types.acks, Size: l.room(), Parts: maxParts,
		RemovalWait: l.RemovalWait, WarmWait: l.WarmWait, ListWait: listWait, ListHold: l.ListHold, Apart: st.apart(l.WarmWait),
	})
	if err != nil {
		return left, status.Error(codes.Unavailable, err.Error())
	}
	st.tellComeback(len(batches) > 0)
	for _, b := range batches {
		if err := st.send(b); err != nil {
			return left, err
		}
	}
	return left, nil
}

// sendRefusals answers the names that the relay refuses, and says why (LOC-4, ERR-1). It waits for
// no ACK: the answers that the relay keeps for a client without ACKs must not grow with requests.
// To the state of the world it sends only the lists that no store sends.
func (st *stream) sendRefusals() error {
	for _, t := range st.types.list {
		if st.variant.form == stateForm {
			if err := st.sendEmptyList(t); err != nil {
				return err
			}
			continue
		}
		for t.refusals.due() {
			if err := st.send(t.refusals.batch(t.url, st.shared.limits.Load().room())); err != nil {
				return err
			}
		}
	}
	return nil
}

// sendEmptyList sends a list that is due because it lacks refused names, where no store has
// anything of the type.
func (st *stream) sendEmptyList(t *typeState) error {
	due := t.refusals.missing && t.status.Subscriptions == 0 // else delivery.Change.Relist has the list sent
	t.refusals.missing = false
	for again := due; again; again = t.refusals.unsaid {
		if err := st.send(t.answersOnly(cache.EmptyVersion())); err != nil {
			return err
		}
	}
	return nil
}

// sendUnattached tells state-of-the-world clients of the refused names that no response was sent
// with. For a full-state type this needs a list. Names for which a list had no room go with
// another list.
func (st *stream) sendUnattached() error {
	for _, t := range st.types.list {
		switch r := &t.refusals; {
		case st.variant.form != stateForm || len(r.untold) == 0:
		case r.unsaid:
			r.unsaid = false
			ch := newChange(st.routing.routes, t)
			ch.relist(st.subscriber.Places())
			st.update(ch)
		case t.full, t.flow.acks(st.types.now, st.types.wait) == delivery.Awaited:
		default:
			if err := st.send(t.answersOnly(delivery.StateVersion(st.subscriber.Places(), t.url))); err != nil {
				return err
			}
		}
	}
	return nil
}

// answersOnly returns a state-of-the-world response without resources, for the answers to refused
// names.
func (t *typeState) answersOnly(version string) *delivery.Batch {
	return &delivery.Batch{TypeURL: t.url, Rank: xds.RankOf(t.url), SystemVersion: version}
}
