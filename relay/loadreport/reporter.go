package loadreport

import "sync/atomic"

// The limits of what reports may take. They are far beyond what clients with thousands of
// clusters report, and bound what is kept for clients that make names up. The least is kept
// from a client, more from a scope, and most from all of them together.
const (
	maxClientBytes = 16 << 20 // of new entries, from one report to the control plane to the next; and of gauges
	maxScopeBytes  = 64 << 20
	maxTotalBytes  = 256 << 20

	// entryBytes is what an entry takes beside its names: a cluster, locality, endpoint,
	// category, metric or gauge.
	entryBytes = 256
	// maxName bounds a name, in bytes.
	maxName = 2 << 10
)

// Dropped says why an entry of a report was left out. It is a metric's label.
type Dropped string

// The reasons. DroppedList lists them all.
const (
	DroppedName    Dropped = "name"    // a name is too long
	DroppedClient  Dropped = "client"  // the client has reached its limit
	DroppedScope   Dropped = "scope"   // the clients of the scope together
	DroppedTotal   Dropped = "total"   // all clients together
	DroppedMessage Dropped = "message" // a report of one cluster's endpoints has no room in a request
	DroppedDenied  Dropped = "denied"  // a cluster that the client may not have
	DroppedUnsent  Dropped = "unsent"  // the control plane could not be reached as long as the scope was there, or has no such service
)

// DroppedList lists every reason.
func DroppedList() []Dropped {
	return []Dropped{DroppedName, DroppedClient, DroppedScope, DroppedTotal, DroppedMessage, DroppedDenied, DroppedUnsent}
}

// budget is how many bytes may be taken, and how many are. Its methods may be called from
// any goroutine.
type budget struct {
	limit  int64
	reason Dropped // where it is at its end
	parent *budget // which must have room too; nil: there is none

	used atomic.Int64
}

// take takes bytes, or says where there was no room; "" if there was.
func (b *budget) take(n int64) Dropped {
	if b == nil {
		return ""
	}
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return b.reason
	}
	if reason := b.parent.take(n); reason != "" {
		b.used.Add(-n)
		return reason
	}
	return ""
}

// give gives bytes back.
func (b *budget) give(n int64) {
	for ; b != nil; b = b.parent {
		b.used.Add(-n)
	}
}

// marks remember which clusters of the sums a client reported on: a bit for each, in words of
// which there are only those with a mark. A scope may have many clusters, and a client few.
type marks map[int]uint64

// set sets a mark, and reports whether it was not set.
func (m *marks) set(i int) bool {
	word, bit := i/64, uint64(1)<<(i%64)
	isNew := (*m)[word]&bit == 0
	if *m == nil {
		*m = make(marks)
	}
	(*m)[word] |= bit
	return isNew
}

// reporter is who adds something to sums: a client, as far as the sums see it.
type reporter struct {
	marks *marks
	taken *int64  // bytes that the client's entries took of these sums
	scope *budget // that they are taken of
	bytes *int64  // the sums'

	dropped map[Dropped]int // entries; nil: none
}

// room takes what an entry with some names needs. If there is none, it is counted, and the
// entry is left out.
func (r *reporter) room(names ...string) bool {
	n := entryBytes
	for _, name := range names {
		if len(name) > maxName {
			r.drop(DroppedName)
			return false
		}
		n += len(name)
	}
	return r.space(n)
}

// space is room for something without a name.
func (r *reporter) space(n int) bool {
	size := int64(n)
	reason := DroppedClient
	if *r.taken+size <= maxClientBytes {
		reason = r.scope.take(size)
	}
	if reason != "" {
		r.drop(reason)
		return false
	}
	*r.taken += size
	*r.bytes += size
	return true
}

func (r *reporter) drop(reason Dropped) {
	if r.dropped == nil {
		r.dropped = make(map[Dropped]int)
	}
	r.dropped[reason]++
}
