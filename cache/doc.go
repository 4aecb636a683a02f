// Package cache holds what the control planes said and remembers how far each
// client has followed it.
//
// A [Cache] owns the limits and the LRU of what nobody watches. A [Store] holds
// everything of one session, that is of one upstream and one scope: a table per
// type and kind (the type as a whole, or names and globs), because the two kinds
// cannot be told apart on one upstream stream (SUB-12). A [Client] is one
// downstream stream's place in one store: its cursors and its named
// subscriptions.
//
// The upstream session fills a store ([Store.Apply], [Store.ApplyState]) and asks it
// which streams there should be ([Store.Streams]) and what to subscribe to
// ([Store.Restart], [Store.TakeDemand]); a downstream stream says what it wants
// ([Client.Update]) and takes what it lacks from all its stores ([Subscriber.Collect]).
// The package does no I/O, starts no goroutine but [Cache.Run]'s caller's own,
// and looks into a payload only for the names that it refers to (WARM-3, SUB-11).
//
// # Collections and cursors
//
// Every change in a store gets the next number. A collection ("*" or a glob)
// keeps its members in a list ordered by the number of their last change, so an
// update is O(1): the member moves to the tail. A client that follows it holds
// one number, and what it lacks is the tail behind that number, merged and in
// order. Removed members move to a second list, of tombstones, in the same
// order; it has a cursor of its own, because removals of clusters and endpoints
// wait for later types (ADS-1, ADS-4) while additions do not.
//
// When something may go out is decided by the schedule of a pass: a survey of each store
// that a stream needs, one plan made of them, and the steps that each store then carries out.
//
// What has a ttl stands in a heap by deadline ([Store.Settle]). Heartbeats have
// numbers and a list of their own, so that they cost clients that cannot do ttl
// nothing, and the others what is new (TTL-2, TTL-3). Clients of the state of the world are
// renewed with whole resources instead, at most once per third of the shortest ttl (TTL-1).
//
// What a client presents when it comes back ([Change].Versions) is compared by its sum
// with what the collection has, and else kept until its members were compared one by one
// (RES-11).
//
// # Sources of the state of the world
//
// A source that speaks it repeats what did not change and does not say what was
// removed. Equal bytes are no change; versions of resources are digests. Each response
// leaves its number with the entries that it held, so that what is missing from a
// complete one shows in one walk, without a set of names (RES-8). A name that is
// asked for and never answered gets absent when its clock has run out (RES-7); the
// clocks of a table stand in a queue in the order of asking, and what was answered in
// between is passed over when its turn comes. The table keeps the server's
// version_info, and with it a running hash of what it holds: a version that is seen
// with two hashes is shown, and trusted by nobody (ACK-4). Names that nobody wants, and
// that nothing refers to any more, are not kept warm: they may be gone, and some servers say
// nothing to who names what they have not.
//
// # Clients of the state of the world
//
// A client of that form ([Form]) has the same cursors. Its full-state types are sent
// as whole lists and the others by what changed, without removals.
// A list lacks what was removed only once later types were sent all that came before
// and acknowledged it; until then tombstones keep their bytes (ADS-1). Versions are
// sums of the members' digests (ACK-4).
//
// Who is told everything each time, as one who polls, takes a [Snapshot] instead.
//
// # Pins and references
//
// What clients' resources refer to can be pinned ([Store.Pin]): the server is asked for it
// as if a client had subscribed to it, and nobody is told. Which entries refer to others,
// and who has them, is told to whoever reads them ([Cache.TakeReferences]).
//
// # The relay's own reading and writing
//
// What the relay resolves by itself, as names with alternatives, lives in a store that
// no session fills (Source.Resolved, [Store.ApplyResolved]): who resolves it knows the
// keys, says when a collection is complete, and cannot be behind, so that no stream has
// to begin anew. It reads the other stores as a client of the incremental form that
// takes values ([Store.Read], [Take]) and is no stream.
//
// # Locks
//
// One RWMutex per store guards its tables and, against the session, the state of
// its clients. Updates and subscriptions take it for writing. Collect takes it
// for reading, since it changes nothing but its own client, whose stream calls
// one method at a time. One lock for all types is what makes a client's pass a
// snapshot: a route is never taken without the cluster that came before it, and
// a cluster that was removed later is seen together with the route that had
// moved away by then. With a lock per table either can slip in between.
//
// Lock order: Store.applyMu, Store.mu, Cache.mu; and Store.mu, bodies.mu, runs.mu or
// rested.mu.
// No two stores' locks are ever held together; eviction takes its candidates under
// Cache.mu, lets go of it, and visits their stores one by one. Nothing blocks under a
// lock; clients are woken after it is released.
package cache
