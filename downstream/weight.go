package downstream

import (
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A name takes memory for as long as a client subscribes to it, whether anybody knows it or not. A stream may
// subscribe to as many as limits.subscriptions and limits.names_bytes let it, and there are many streams. So
// limits.names_total bounds what the names of all streams and polls weigh (LIM-3). Streams with few names do not
// count, and take no lock.

// weight returns what the names weigh that are kept for a stream.
func (st *stream) weight() int {
	later, bytes := st.types.presented()
	return weightOf(st.types.subscriptions()+later, st.subscribedBytes()+bytes) + max(0, weightOf(st.types.remembered())-freeRefused)
}

// subscribedBytes returns how many bytes the names have that the client subscribes to.
func (st *stream) subscribedBytes() (n int) {
	for _, place := range st.subscriber.Places() {
		n += place.NamesBytes()
	}
	return n
}

// weightOfVersions returns what may be kept of the versions that a client presents: names of globs.
func weightOfVersions(v *wire.Versions) int {
	if v.Plain(maxNameLength) {
		return 0
	}
	return weightOf(v.Len(), v.Size())
}

// reserve has what a client asks for counted, as far as there is room, until settle. It notes what that may
// weigh; nil: it is so little that it need not be counted.
func (st *stream) reserve(subscribe []string, versions *wire.Versions) {
	asked := weightOf(len(subscribe), bytesIn(subscribe)) + weightOfVersions(versions)
	has, ts := st.weight(), &st.types
	if ts.part == nil {
		if has+asked <= freeNames {
			ts.total = nil
			return
		}
		ts.part = st.shared.names.Begin()
	}
	ts.total = new(max(0, ts.part.Grow(has+asked, st.sharedBy())-has))
}

// forAnswers returns what refused names may weigh; nil: no limit. A quota takes what is served out of the total. Without
// one there is room for all names of the request.
func forAnswers(q *nameQuota, total *int, subscribe []string) *int {
	if q != nil || total == nil {
		return total
	}
	*total -= weightOf(len(subscribe), bytesIn(subscribe))
	return nil
}

// sharedBy returns a function that says in which share a stream counts.
func (st *stream) sharedBy() func() quota.Client {
	return func() quota.Client { return quota.ClientOf(&st.standing.peer) }
}

// noteWeight counts what a stream's names weigh now.
func (st *stream) noteWeight() {
	if st.types.part != nil {
		st.types.part.Set(st.weight(), st.sharedBy())
	}
}
