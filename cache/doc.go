// Package cache has what control planes said: the content. Package downstream/delivery has
// what clients subscribe to and lack of it.
//
// A [Cache] owns the limits and the LRU of idle demand. A [Store] has everything of one
// session, that is of one upstream and one scope. A store has a [Table] for each type and
// kind: the type as a whole ("*"), or names and globs. The two kinds cannot be told apart on
// one upstream stream (SUB-12). A table has an [Entry] for each name, and a [Collection] for
// "*" or each glob.
//
// A [Session] is the upstream side of a store. It fills the store ([Session.Apply]),
// asks which streams there should be ([Session.Streams]) and what to subscribe to
// ([Session.Restart], [Session.TakeDemand]). The package does no I/O and starts no goroutine. It
// looks into a payload only for the names that the payload refers to (WARM-3, SUB-11).
//
// # Collections and cursors
//
// Each change in a store has the next number, its revision. A collection lists its members in
// the order of their last change. So an update is O(1): the member moves to the tail. A client
// that follows the collection has a [Cursor]: the revision up to which it was sent the members.
// It lacks the members behind that, each once and in order. Removed members move to a second
// list, of tombstones, in the same order. A cursor has a position of its own there, because
// removals of clusters and endpoints wait for later types (ADS-1, ADS-4) and additions do not.
//
// Resources with a ttl stand in a heap by deadline ([Session.Settle]). Heartbeats have numbers
// and a list of their own: they cost nothing for clients that cannot do ttl, and other clients
// only what is new (TTL-2, TTL-3).
//
// # What content knows of clients
//
// A [Bell] that rings when there may be something to collect. A [Cursor] with its [Needs]. An
// [Audience]: all subscriptions to one name, told of each change with one call. A [Follower]:
// the client's part of a cursor, told of what a position cannot express. A [Place] per client,
// of which the store asks nothing but its bell.
//
// # Sources of the state of the world
//
// Such a server repeats resources that did not change, and does not say which are gone. Equal
// bytes are no change, and versions of resources are digests. Each response leaves its number
// with the entries that it held. So one walk finds the entries that a complete response lacks,
// without a set of names (RES-8). A name of which nothing is known has the error
// UNAVAILABLE when its clock has run out (RES-7). Silence removes nothing. The clocks of a table stand in a queue in the order of
// asking. The table keeps the server's version_info, and a running hash of its content. A
// version_info that stood for two contents is shown, and no client skips anything because of
// it (ACK-4). Idle names to which no resource refers any more are let go: the server may not
// have them, and some servers do not answer a request that lists such a name.
//
// # Pins and references
//
// The targets of clients' resources can be pinned ([Store.Pin]). The server is asked for them
// as if a client had subscribed, and no client is told. [Cache.TakeReferences] returns the
// entries that refer to others, and whether clients have them.
//
// # The relay's own store
//
// Names that the relay resolves by itself, as those with alternatives, are in a store that no
// session fills ([Source.Resolved], [Session.ApplyResolved]). The resolver gives keys, says when
// a collection is complete, and cannot be behind. So no stream has to begin anew.
//
// # Locks
//
// One RWMutex for each store guards its tables and, against the session, the state of its
// clients. Updates and subscriptions take it for writing. A collect takes it for reading: it
// changes only its own client, whose stream calls one method at a time. One lock for all types
// makes a collect a snapshot: docs/decisions/0003-one-lock-per-store.md shows which mistakes
// smaller locks allow.
//
// Lock order: Store.applyMu, Store.mu, Cache.mu; and Store.mu, then lists.mu, chunks.mu or
// waiters.mu. No two stores' locks are held together. Eviction takes its candidates under
// Cache.mu, releases it, and visits their stores one by one. Nothing blocks under a lock. Bells
// ring after it is released.
package cache
