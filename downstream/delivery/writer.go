package delivery

import (
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// writer fills the batches of a delivery.
type writer struct {
	size, left int       // bytes of a batch, and batches that are left
	full       bool      // no batch is left, or enough was looked at
	now        time.Time // of the delivery, once it was asked for
	out        []*Batch

	// The batch that is being filled, for one type subscription and kind.
	cur     *Batch
	typeSub *typeSub
	table   *cache.Table
	names   map[string]bool // in cur, where one could come twice (RES-4)

	removing bool   // removals that wait for later types are written
	renewing bool   // the client has the content, and is told the TTL, in the state of the world
	single   *group // the response holds this group alone (ACK-3)
}

// turn begins another type or kind, which has its own batches. It returns false if nothing of
// that kind is subscribed to.
func (wr *writer) turn(w *typeSub, k cache.Kind) bool {
	switch {
	case wr.full:
		return false
	case k == cache.ByName && w.subs.names.len()+len(w.subs.globs.all) == 0:
		return false
	case k == cache.WholeType && w.subs.wildcard == nil:
		return false
	}
	t := wr.tableOf(w, k)
	if wr.typeSub != w || wr.table != t || (wr.cur != nil && wr.cur.Removal != wr.removing) {
		wr.typeSub, wr.table, wr.cur, wr.names = w, t, nil, nil
	}
	return true
}

// tableOf returns the table of a kind that the client subscribes to.
func (wr *writer) tableOf(w *typeSub, k cache.Kind) *cache.Table {
	if k == cache.WholeType {
		return w.subs.wildcard.Collection().Table()
	}
	if wr.typeSub == w && wr.table != nil && wr.table.Kind() == k {
		return wr.table
	}
	return w.place.store.FindTable(w.typeURL, k)
}

func (wr *writer) first(name string) bool {
	if !wr.twice() {
		return true
	}
	if wr.names[name] {
		return false
	}
	if wr.names == nil {
		wr.names = make(map[string]bool)
	}
	wr.names[name] = true
	return true
}

// twice reports whether one name could come twice (RES-4): a client without the wrapping does
// not see how it spelled a name.
func (wr *writer) twice() bool {
	subs, form := &wr.typeSub.subs, wr.typeSub.place.form
	return wr.table.HasAliases() || wr.table.HasAnswers() || subs.globs.directives ||
		(form.State && !form.Wrapped && subs.respelled())
}

// room makes sure that n more bytes fit into the batch. It returns false if all batches are
// used up.
func (wr *writer) room(n int) bool {
	if wr.cur != nil {
		if taken := wr.cur.Body.Size(); taken == 0 || taken+n <= wr.size {
			return true
		}
	}
	if wr.left == 0 {
		wr.full = true
		return false
	}
	wr.left--
	wr.names = nil
	wr.cur = &Batch{
		TypeURL: wr.typeSub.typeURL, Rank: wr.typeSub.rank, Removal: wr.removing,
		SystemVersion: wr.typeSub.place.format.version(wr.typeSub, wr.table), Renewal: wr.renewing,
		Store: wr.table.Store(), last: wr.removing,
	}
	wr.typeSub.progress.responses++
	wr.cur.flight.number = wr.typeSub.progress.responses
	if wr.single != nil {
		wr.cur.flight.extras().group, wr.cur.flight.offered = wr.single, wr.single.offered
	}
	wr.out = append(wr.out, wr.cur)
	wr.merged(wr.typeSub, 0)
	return true
}

// merged counts changes that were merged away in the type's last batch, or in its next one if
// nothing was sent of them.
func (wr *writer) merged(w *typeSub, n int) {
	w.changed.merged += n
	for _, b := range slices.Backward(wr.out) {
		if w.changed.merged > 0 && b.TypeURL == w.typeURL {
			b.Merged += w.changed.merged
			w.changed.merged = 0
		}
	}
}

const (
	// nameOverhead is what a name takes in a response beyond its own bytes.
	nameOverhead = 8
	// wrapOverhead is what wrapping takes (RES-13).
	wrapOverhead = 72
	// ttlOverhead is what a TTL takes in a response at most, but for the wrapping.
	ttlOverhead = 24
)

// add puts r, the content of e, into the batch.
func (wr *writer) add(e *cache.Entry, r *wire.Resource, name string, pushed bool) bool {
	to, ttl := wr.typeSub.place.format, wr.remaining(e)
	known, size := to.measure(r, name)
	if ttl > 0 {
		size += ttlOverhead
		if form := wr.typeSub.place.form; form.State && !form.Wrapped {
			size += wrapOverhead
		}
	}
	if !wr.typeSub.subs.screen.lets(known, r) {
		return true
	}
	if !wr.room(size) {
		return false
	}
	if wr.first(known) && wr.typeSub.put(wr.cur, outgoing{format: to, resource: r, name: known, ttl: ttl}) {
		wr.record(e, pushed)
	}
	return true
}

func (wr *writer) remove(name string) bool {
	if !wr.room(len(name) + nameOverhead) {
		return false
	}
	if wr.first(name) {
		wr.cur.Body.Remove(name)
		wr.cur.flight.removes(name)
	}
	return true
}

// record adds e's revision to the batch. For a pushed change it adds the receive time.
func (wr *writer) record(e *cache.Entry, pushed bool) {
	if wr.cur == nil {
		return
	}
	wr.cur.Last = max(wr.cur.Last, e.Changed())
	if e.Exists() {
		wr.cur.content.Add(e.Changed())
	}
	if pushed && !e.Restored() {
		wr.cur.Received = notify.Earlier(wr.cur.Received, e.ReceivedAt())
	}
}

// remaining is the TTL that a client is sent with e now (TTL-2); 0: none.
func (wr *writer) remaining(e *cache.Entry) time.Duration {
	if !e.Lifetime().HasTTL() || !wr.typeSub.place.form.TTL {
		return 0
	}
	return max(cache.MinRemaining, e.Lifetime().Deadline().Sub(wr.time(wr.typeSub)))
}

// time returns when the Collect began.
func (wr *writer) time(w *typeSub) time.Time {
	if wr.now.IsZero() {
		wr.now = w.place.store.Now()
	}
	return wr.now
}

// begin has the next content go into a response of its group, if it is not in one already.
func (wr *writer) begin(w *typeSub, t *cache.Table) {
	if wr.cur == nil || wr.cur.flight.group() != wr.single {
		wr.cur, wr.names = nil, nil
	}
	wr.typeSub, wr.table = w, t
}

// tellError puts an error into the batch (ERR-1), under the client's name for the resource
// (NAME-4). It reports whether there was room.
func (wr *writer) tellError(err *wire.ResourceError, name string) bool {
	if !wr.room(len(name) + err.Size()) {
		return false
	}
	wr.putError(err, name)
	return true
}

// putError is tellError if there is room.
func (wr *writer) putError(err *wire.ResourceError, name string) {
	wr.typeSub.place.format.fail(wr.cur, wr.typeSub.mask(err), name)
}

// start gives the writer the bounds of the batches of one store.
func (wr *writer) start(p *Pace, at time.Time) { wr.size, wr.left, wr.now = p.Size, p.Parts, at }
