package upstream

import (
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Store is the cache's side of a session: what is wanted, and where responses
// go. No method does I/O or blocks. A session calls them from its owner
// goroutine only, one at a time; others may call them at the same time.
//
// The Store says which streams there should be: one for all types or, where the
// control plane wants that, one for each, and a second one only where one type is
// wanted both as a whole and by name (SUB-12), and the server takes it. Each stream that comes up is told to
// the Store by one Restart and its end by one Lost; TakeDemand, Shed, LeaveOut, Withhold and
// Apply come only in between. The subscriptions they return belong to the session: another
// goroutine encodes them later, so neither names nor versions may change.
type Store interface {
	// DemandChanged has a value when Streams or TakeDemand has something new to say, or Settle
	// after what was no response. It is always the same channel, of one slot.
	DemandChanged() <-chan struct{}

	// Streams are those on which anything is wanted now, or is still to be
	// unsubscribed, in the order in which to open them; StreamWanted says whether one
	// is among them.
	Streams() []wire.StreamID
	StreamWanted(stream wire.StreamID) bool

	// Awaited says whether anybody waits for what is wanted, and not only the cache keeps
	// it. If somebody comes, DemandChanged has a value.
	Awaited() bool

	// Restart says that the stream begins anew and returns everything wanted on
	// it, one subscription per type, with the versions held (RES-12). Versions
	// that would take more than versionsLimit bytes, encoded as
	// initial_resource_versions and together with the names of the collections
	// whose members they may be, are left out for that type (RES-14).
	Restart(stream wire.StreamID, versionsLimit int) []wire.Subscription

	// TakeDemand returns the changes since Restart or the last TakeDemand, in the
	// order in which it is to be written. What it unsubscribes is dropped from
	// the cache now, so it is called only when the result is written next. A
	// subscription with neither names to subscribe nor to unsubscribe is never
	// written: as the first of its type it would mean the wildcard (SUB-3). Of a type
	// for which the server ends the stream nothing is written until it takes it.
	//
	// Without ok the stream has to begin anew for something that was not taken: it is
	// wanted again, and the server may still be sending what it sent before it
	// read the unsubscription. Everything else was taken.
	//
	// For a stream that waits for somebody to come it is called too, for what it drops,
	// and followed by Lost if there is anything to subscribe to.
	TakeDemand(stream wire.StreamID) (subs []wire.Subscription, ok bool)

	// Shared says whether several use what is on the streams: then one that begins anew for one
	// of them is taken from others.
	Shared() bool

	// Unasked are the types, in no order, of which TakeDemand has names to subscribe to
	// on the stream. Names that are only to be unsubscribed do not count.
	Unasked(stream wire.StreamID) []string

	// OneStream says whether the server refuses a second stream beside one: then that
	// carries the subscriptions of both. The second is not open, or neither is.
	OneStream(stream wire.StreamID, one bool)

	// Shed lets go of names of a type that nobody watches, of about as many bytes, and
	// reports whether there were any. Then DemandChanged has a value, and TakeDemand
	// unsubscribes them (RES-17).
	Shed(stream wire.StreamID, typeURL string, bytes int) bool

	// LeaveOut says which names of a type are not asked for on the stream from now on,
	// because a request has no room for them, and for which there is room again (RES-17).
	// The Store tells clients that want the former, and takes no list for complete that lacks
	// them. Meanwhile it unsubscribes names that no client wants any more.
	LeaveOut(stream wire.StreamID, typeURL string, out, in []string)

	// Withhold says whether what Restart and TakeDemand return of a type is kept back
	// and not written, until further word or the next Restart: nobody is asked for it,
	// so nothing follows from its not being answered (RES-7).
	Withhold(stream wire.StreamID, typeURL string, withheld bool)

	// Lacks returns the names of resources that Apply would remove because a list of the state of the world leaves
	// them out, though they are asked for by name. repeats says that the list has something just as the Store holds it.
	Lacks(stream wire.StreamID, r *wire.Response) (names []string, repeats bool)

	// Apply takes a response that could be decoded and is of a type that was
	// asked for on the stream. An error is the reason for a NACK (ACK-6) — a name
	// that comes twice, a payload of a wrong type — and leaves what was cached. What the
	// state of the world no longer has is the Store's to work out (RES-8).
	Apply(stream wire.StreamID, r *wire.Response, received time.Time) error

	// Sequence is the number of the last change that Apply made, and Heard
	// reports whether the last one brought content that goes to a client now, and whether it had content that
	// clients rejected and are offered again (ACK-7).
	Sequence() uint64
	Heard() (heard, again bool)

	// Lost says that the stream ended, for any reason.
	Lost(stream wire.StreamID)

	// Settle ends the quiet time of collections (RES-14) that were answered long
	// enough before now, and the waiting for names that were not (RES-7), and drops
	// what has outlived its ttl, whether a stream is up or not (TTL-2). It returns
	// when to call it again, zero if nothing waits. It is asked anew after everything
	// that may bring something to wait for: Restart, TakeDemand, Apply, DemandChanged.
	Settle(now time.Time) time.Time
}
