// Package delivery has the clients' side of the content in package cache: what a client
// subscribes to, what it was sent, and what it lacks.
//
// A [Subscriber] is one client's stream. It has a [Place] in each store that has something it
// subscribes to. A place has a type subscription (typeSub) for each type: followers of "*" and
// of globs, and subscriptions to names. A follower is a [cache.Cursor] with what only its
// client knows.
//
// [Place.Update] carries out a request. [Subscriber.Collect] takes everything that the client
// lacks, as batches in the order in which they go out (make-before-break, ADS-1): a survey of
// each store, one schedule made of them all, and the steps that each store carries out. Only
// the schedule decides when something goes out.
//
// # The forms
//
// A client of the incremental form is sent changes and removals. A client of the state of the
// world ([Form]) has the same cursors. It is sent full-state types as whole lists, and the
// others by what changed, without removals. A list goes on holding a removed resource until
// later types were sent all that came before the removal, and the client acknowledged it
// (ADS-1). The versions of lists are sums of the members' digests (ACK-4). A ttl is renewed
// with whole resources, at most once per third of the shortest ttl (TTL-1).
//
// A client that is told everything each time, as one that polls, takes a [Snapshot]. The relay
// itself reads a store as a client of the incremental form that takes values ([Read], [Take]).
//
// # Clients that return
//
// The versions that a client presents when it comes back ([Change].Versions) are compared with
// the collection's by their sum. If the sums differ, they are kept and compared with the
// members one by one (RES-11).
//
// # Locks
//
// The package has no lock. A place is guarded by its store's lock against the session. The
// stream's owner calls one method of a Subscriber at a time, and reads and changes its own
// places under the store's lock for reading. Subscriptions change under the lock for writing.
// No two stores' locks are held together.
package delivery
