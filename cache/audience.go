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
// clients there are; the audience goes through them. All methods but Count and Any are called under the store's lock for writing.
type Audience interface {
	// Changed tells of new content.
	Changed()
	// Removed tells that the name stands for nothing now.
	Removed(r Removal)
	// Confirmed tells that the server has the content, which was restored (SUR-1).
	Confirmed()
	// Renewed tells of a heartbeat. ttlRemoved says that the server removed the ttl (TTL-4).
	Renewed(ttlRemoved bool)
	// Erred tells of an error beside the content (ERR-1), and Recovered that it is over.
	Erred()
	Recovered()
	// Overdue tells that the name is waited for no longer (RES-7).
	Overdue()
	// DigestChanged tells that the name's part of the digests changed.
	DigestChanged(was, is digest.Sum)

	// Any reports whether a subscription has some needs, and Count how many have.
	Any(needs Needs) bool
	Count(needs Needs) int
	// Hears reports whether new content goes to a client now. It counts in asked the clients
	// that it looked at, and takes it for granted beyond maxAsked.
	Hears(asked *Asked) bool
}

// Removal tells subscriptions to a name that the resource does not exist any more.
type Removal struct {
	// Was is the content before, if lists may go on holding it (ADS-1).
	Was *wire.Resource
	// Again says that the name stood for nothing before: a client that was not told yet is to
	// be told.
	Again bool
	// Expired says that the ttl ran out of the content that came with the change Content.
	Expired bool
	Content uint64
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
