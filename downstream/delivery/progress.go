package delivery

import (
	"math"
	"time"
)

// progress is how much a client was sent of a type, and acknowledged.
type progress struct {
	sent    uint64 // the client was sent everything up to this change, but removals that wait
	settled uint64 // and acknowledged everything up to this one
	later   uint64 // the same of all later types of this store; of the last survey
	gate    *gate  // of removals that wait (ADS-4); nil if there are none

	responses uint32 // so far
	before    uint32 // responses before the present delivery
	led       bool   // the client was sent something, or said that it holds something
	shown     bool   // the client said that it holds something
}

// anyNumber is the limit of a client that takes all changes.
const anyNumber = math.MaxUint64

// listState is how far a state-of-the-world client is with a full-state type.
type listState struct {
	full      bool      // a full-state type: sent as whole lists (RES-2)
	listed    bool      // the client was sent a list, or has the one that it showed
	relist    bool      // a list is due although nothing changed
	refused   bool      // the client rejected its last list (TTL-3)
	presented string    // version_info that the client showed first; until listed
	begun     time.Time // when the client asked first
}

// awaited reports whether the client is sent whole lists, and has had none.
func (l *listState) awaited() bool { return l.full && !l.listed }

// mayHaveAll reports whether the client may have everything: it showed a version and has had no
// list (RES-2).
func (l *listState) mayHaveAll() bool { return l.awaited() && l.presented != "" }

// sent records that the client has a list.
func (l *listState) sent() { l.listed, l.relist, l.presented = true, false, "" }

// A gate keeps removals of clusters and endpoints back, so that what came with them goes first
// (ADS-1, ADS-4): until their time is over, and then until everything of later types that had
// come by that time was sent and acknowledged. The same holds for removals of other types that
// resources refer to, and earlier types (ADS-5).
type gate struct {
	upTo   uint64 // removals up to this number have waited for their time
	passed uint64 // removals up to this number may go
	// held: removals of what the client said it holds and does not exist may go. heldSince is
	// when that is known; it waits for its time as a removal does.
	held      bool
	heldSince time.Time

	shut  bool      // some have waited for their time, and wait for later types
	mark  uint64    // the last change when they had
	since time.Time // when that was
}
