// Package upstream is the relay's side towards the control planes: the xDS
// client.
//
// It owns connections and streams. An [Upstream] is one control plane with its endpoints in
// order of priority, over which its sessions spread, and the connections that they share. Two kinds of control
// planes do not speak gRPC: [REST] is polled (REST-3), and [Files] are read (VAR-6).
//
// A [Session] fills the [Store] of one scope. It asks for what the Store wants, hands every
// response to the Store and answers it, resumes after a loss (RES-12), backs off (OPS-2) and
// moves between endpoints (LOC-6).
//
// It does not own cached resources and their clients: the Store has them, which
// package cache implements. Payloads are never looked at, and never logged
// (OPS-6). Package relay creates upstreams and sessions and runs them.
//
// # One loop
//
// Session is the loop that all control planes share: it waits for the Store, for time and
// for what goroutines bring, and looks when demand is to be asked for. What differs is
// below it, in layers:
//
//	Session     the loop; one Store
//	source      remote: connects, backs off, moves    fileSource: reads the views of Files
//	line        remote: one of the Store's streams over all its links
//	client      grpcClient: nodes, ACKs, besides      restClient: polls
//	link        streamLink: one xDS stream            pollLink: one poller
//	dialect     deltaDialect: incremental             stateDialect: state of the world
//
// # Variants
//
// The control plane's [APIType] decides what a session says. It has two sides. With
// one stream for all types there is one, at most two (SUB-12); with one per type there
// is one, at most two, for each type that is wanted, opened and ended with that. A server
// that refuses a second stream is asked for everything and for names on one (SUB-14). And
// requests and responses are incremental or the state of the world. Everything else is
// the same session: a dialect says how a subscription becomes requests and how a
// response is answered, and the Store what a response changes.
//
// An incremental session asks for the wildcard by a first request that names nothing, on
// resuming too: some servers know no other form (SUB-14).
//
// In the state of the world every request lists all names of its type. So names that
// nobody watches are let go before a request passes its limit (RES-17), and a change of
// names goes behind the NACK of the type that waits, since every request that names the last
// response answers it. In both forms what is held for clients' answers is acknowledged before ([Nack]). A response for a type that was never asked
// for is not answered: the first request for a type subscribes to it, to everything if
// it names nothing. The other form of the wildcard, "*", is used for types whose
// responses are not complete, and to let go of the first.
//
// On a stream for all types, a type for which the server ends the whole stream goes beside: it
// is asked for again at growing intervals on a stream of its own, so that it takes the stream from nobody
// else (LIM-2). So does a type that no service is known of, once something else was answered. A type with a
// stream of its own costs only that, which is tried again at
// growing intervals; its endpoint counts as reachable as long as it serves other types. A
// type that has no service of its own (all but the ten that Envoy discovers, and
// VirtualHost and LbEndpoint in the state of the world) cannot be asked for one by one: it is told of
// once, counted, and its names stay unknown.
//
// # Outages
//
// All sessions of a control plane share one entrance. While nothing can be reached it lets
// one stream in at a time, and the others after that one was answered (UPS-2). [Outages]
// is what it knows, for package relay: since when, and why.
//
// # Silence
//
// A server may have nothing to say for days, and one that hangs says nothing either (SUR-2).
// If nothing comes from a replica for a minute, one of the sessions with streams to it sends a query: a request for something
// that was delivered before, without versions, over a stream or poll of its own (query, delivered, asker).
// Any answer shows that the replica is well. An answer that is owed on a session's own stream has a deadline (owed). After it
// the session asks once on a fresh stream, and then at the other replicas (fallback). If one of these answers all sessions
// leave the silent one. What none answers counts against none. A better replica is returned to after it
// answered a query. Replicas keep when they answered, for all sessions (answers).
//
// # Other sources
//
// What polls or reads files feeds the same Store, in the same words, as a source that
// speaks the state of the world (cache.Source.State). Package relay holds what feeds a
// store as an interface of three methods: Run, Status and Tell. Such a feed
//
//   - waits for DemandChanged and asks for Streams. A poller has one stream for each
//     [wire.StreamID], so a type of its own for each poll (cache.Source.PerType), and two
//     polls where a type is wanted as a whole and by name; files have a stream for each
//     type too;
//   - calls Restart for each stream once the source can be read, which gives the names
//     wanted, adds and takes off what TakeDemand says from then on, and begins anew
//     (Lost, Restart) where TakeDemand is not ok;
//   - hands over what it read with Apply. An error is what a NACK would say. Lists
//     say that they are the state of the world ([wire.Response.State]). A source that
//     knows everything of a type sets [wire.Response.Complete]: what is
//     wanted and missing is absent at once. It has to do so again after each TakeDemand,
//     for the names that were added;
//   - calls Settle when that says, and anew after Restart, TakeDemand and Apply;
//   - calls Lost when the source cannot be read for the time being, if clients should
//     not be told that names do not exist; what is cached stays either way.
//
// # Goroutines
//
// A session is owned by the goroutine that called [Session.Run]. It alone calls
// the Store and takes every decision, and it never does I/O: each stream has
// one goroutine that connects and then blocks in Recv, and one that blocks in
// Send. Sending is apart from the owner because of flow control: a server whose
// one goroutine is blocked writing a large response to us does not read, so an
// owner blocked in writing a large request to it would never take that
// response, and the two would wait for each other for good. As it is, responses
// are always taken, and a server that does not read delays nothing but the
// requests to itself. Cancelling the context of Run cancels the streams'
// contexts, which ends both kinds of blocking; Run waits for all its goroutines.
//
// A poller has one goroutine, which waits for what the owner says to what it brings. A
// session of files has none but its owner: the files are read by goroutines of the [Files].
package upstream
