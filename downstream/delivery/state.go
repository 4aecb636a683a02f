package delivery

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// This file has the state of a stream: its subscriber, a place for each store, there a
// subscription for each type, and in that followers of collections and subscriptions to names.

// Subscriber is one client's stream: its places in all stores that hold something that it
// subscribes to. The stream's goroutine calls its methods, one at a time.
type Subscriber struct {
	form   Form
	ring   func()
	places []*Place          // in the order in which the stream joined the stores
	debts  []debt            // of the present Collect
	judge  Judge             // nil: the client may be sent everything
	lists  map[string]string // versions of the last lists that a screen judged, by type URL; nil: none did
	warming
}

// warming is what a stream remembers of the clusters that it sent.
//
// A client that gets a new or changed cluster of type EDS waits for the cluster's endpoints. An
// incremental one does not ask for them again, so that they are sent again behind the cluster
// (WARM-3). And traffic is not to be led to a new cluster before the client has its endpoints:
// listeners and routes that came with the cluster wait for them a while (WARM-4).
type warming struct {
	clusters map[string]struct{} // endpoints of new clusters, by their name
	since    time.Time           // when the oldest of these clusters was sent
}

// debt is an answer that a glob or a name owes for a member that "*" lost.
type debt struct {
	typeSub *typeSub
	glob    *follower // nil for a name
	name    cache.Name
	instead bool // of the removal, which was not told
}

// Place is one stream's place in one store. The stream's goroutine calls its methods, one at a
// time.
type Place struct {
	// immutable after Join
	store      *cache.Store
	subscriber *Subscriber // the stream with all its places; nil for a reader, and for one that polls
	format     format      // of form
	form       Form
	own        bool  // a reader of the relay's own, and not a stream
	judge      Judge // nil: the client may be sent everything; changed by JudgedBy

	// Guarded by Store.mu against the session; read and written under its read lock by the
	// client's own stream only.
	held  bool       // Held
	types []*typeSub // in the order in which types are sent
	bell  cache.Bell
	late  []Late // of a reader, until it takes
}

// typeSub is a client's subscription to one type in one store. Guarded like Place.
type typeSub struct {
	place        *Place
	typeURL      string
	rank         xds.Rank
	removalsWait bool // its removals wait for what refers to it (ADS-4, ADS-5)
	bell         cache.TypeBell

	subs     subscribed
	changed  nameQueue
	answers  answers
	held     heldNames
	list     listState
	progress progress
	found    found
	again    *rejections
	renewals renewals
}

// found is what the survey found due: more than renewed TTLs, anything, and removals; of a list,
// whether it has changed, and whether it is offered again.
type found struct{ news, pending, removing, changed, offered bool }

// subscribed is all that a client subscribes to of one type in one store.
type subscribed struct {
	names    nameIndex
	globs    globIndex
	wildcard *follower
	screen   *screen // nil: the client may be sent everything
	parts    *parts  // with the subscriptions to the type in the stream's other stores; nil if there are none
}

// follower is a cursor with what only its client knows. Guarded like Cursor.
type follower struct {
	cache.Cursor

	typeSub *typeSub
	name    spelling

	sentBefore uint64 // highest Sent before the present Collect
	errorSent  uint64 // number of the last error that the client was told (ERR-1)
	ttl        ttlPosition

	seen     uint64 // Changes of the collection when the client last had all of it
	since    int32  // changes sent since then
	answered bool   // the client was told something, if only that it is empty
	synced   bool   // a reader knows that the collection is
	broken   uint16 // the last break of the server's answer that a relay was told of; 0: none, or it knows that all is there

	// held is what the client said it holds of the collection (initial_resource_versions), by
	// key, until each was compared; what is left when the collection is synced does not exist
	// any more (RES-11).
	held     *heldVersions
	withheld withheld
}

// nameSub is one client's subscription to one name.
type nameSub struct {
	typeSub  *typeSub
	entry    *cache.Entry
	pos      int // in the entry's audience
	spelling string
	response uint32 // number of the response with the content; see flight

	dirty           bool // in the queue of changed names
	pushed          bool // dirty because of a change, not of a subscription
	heartbeat       bool // dirty because of a heartbeat alone (TTL-3)
	missedHeartbeat bool // heartbeat, and the client was not told of the one before either
	holds           bool // the client may have the resource
	absenceDue      bool // the resource does not exist, and the client does not know
	expired         bool // its ttl ended; counts while a removal is due
	withheld        bool // the content is restored, and the client presented something else (SUR-1)
	ended           bool
	toldAbsent      bool // the client was told last that the resource does not exist; kept with a screen only

	retained *wire.Resource // content before the removal, while lists may hold it (ADS-1)
}

// Late is a name or a collection that was asked for long ago. The relay waits for it no longer,
// though nothing is known of it (Source.Absent).
type Late struct{ TypeURL, Key string }

// parts are the subscriptions to one type that a stream has in several stores. They belong to
// the stream's goroutine, and so do their names and globs as far as it reads them.
type parts struct {
	all []*subscribed
	// names counts by key the names that are subscribed to; nil up to maxParts.
	names map[string]int
}

// renewals is when a type subscription is renewed, in the state of the world.
type renewals struct {
	next time.Time // when the client may be renewed again (TTL-1)
}

// find returns the subscription to a type, nil if there is none. The set changes in Update and
// Leave only, which the same goroutine calls.
func (c *Place) find(typeURL string) *typeSub {
	for _, w := range c.types {
		if w.typeURL == typeURL {
			return w
		}
	}
	return nil
}

// format is what the responses of one form can express, and how. Its values have no state.
type format interface {
	// skip advances a type subscription past what the form does not tell its client.
	skip(w *typeSub)
	// version is the version of a response with resources of a table.
	version(w *typeSub, t *cache.Table) string
	// measure returns the name that a response has for a resource of which the client knows
	// the name, and how many bytes both take at most, without a TTL.
	measure(r *wire.Resource, known string) (name string, size int)
	// add puts a resource into a response, under the name that measure gave. A TTL of 0 is none.
	add(to *wire.Builder, r *wire.Resource, name string, ttl time.Duration)
	// fail puts an error into a response, under the client's name for the resource (ERR-1).
	fail(b *Batch, err *wire.ResourceError, name string)
	// absence is the error that tells that there is no such resource, nil if a removal tells it.
	absence() *wire.ResourceError
}

// withheld is the keys of members that are restored, and of which the client presented something
// else (SUR-1).
type withheld map[string]struct{}
