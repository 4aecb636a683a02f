package cache

import (
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// Needs are the needs of a subscription to a name, or of a follower of a collection.
type Needs uint8

// The needs.
const (
	NeedsStream  Needs = 1 << iota // it is a client's stream, and no reader of the relay's own
	NeedsTTL                       // heartbeats: the client can do ttl
	NeedsDigests                   // digests of what is there: the client is of the state of the world
	NeedsBreaks                    // word that an answer broke off: the client is a relay (RES-2)
)

// Has reports whether all of some needs are among n.
func (n Needs) Has(some Needs) bool { return n&some == some }

// Audience is all subscriptions to one name. A change costs content one call, however many
// clients there are; the audience goes through them. Notify and Hears are called under the store's lock for writing.
type Audience interface {
	// Notify tells of what happened to the name.
	Notify(n Notice)
	// Any reports whether a subscription has some needs, and Count how many have.
	Any(needs Needs) bool
	Count(needs Needs) int
	// Hears reports whether new content goes to a client now. It counts in asked the clients
	// that it looked at, and takes it for granted beyond maxAsked.
	Hears(asked *Asked) bool
}

// Event is what happened to a name.
type Event uint8

// The events.
const (
	Changed       Event = iota // there is new content
	Removed                    // the name stands for nothing now
	Confirmed                  // the server has the content, which was restored (SUR-1)
	Renewed                    // a heartbeat came
	Erred                      // there is an error beside the content (ERR-1)
	Recovered                  // that error is over
	Overdue                    // the name is waited for no longer (RES-7)
	DigestChanged              // the name's part of the digests changed
)

// Notice tells the subscriptions to a name of an event. The other fields are of the events that they name.
type Notice struct {
	Event Event

	// Removed: Again says that the name stood for nothing before, so that a client that was not told yet is to be
	// told; Expired that the ttl ran out of the content that came with the change Content; Retained is the content
	// before, if lists may go on holding it (ADS-1).
	Again    bool
	Expired  bool
	Content  uint64
	Retained *wire.Resource
	// Renewed: the server removed the ttl (TTL-4).
	TTLRemoved bool
	// DigestChanged.
	Was, Is digest.Sum
}

// maxAsked bounds the clients that are looked at to learn whether one of them is sent what a
// response brought.
const maxAsked = 64

// Asked counts clients that were looked at.
type Asked int

// Enough counts one more, and reports whether there were enough.
func (a *Asked) Enough() bool {
	*a++
	return *a > maxAsked
}
