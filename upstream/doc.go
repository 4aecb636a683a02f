// Package upstream is the relay's side towards the control planes: the xDS
// client.
//
// It owns connections and streams: an [Upstream] is one control plane with its
// endpoints in order of priority and the connections that its sessions share; a
// [Session] is the incremental ADS client for one scope, with one stream, at
// most two (SUB-12). It subscribes to what its [Store] wants, hands every
// response to the Store and answers it, resumes after a loss (RES-12), backs
// off (OPS-2) and moves between endpoints (LOC-6). A type for which the server
// ends the whole stream is withheld, and tried again now and then, so that it
// takes the stream from nobody else.
//
// It does not own what is cached or who wants what: that is the Store's, which
// package cache implements. Payloads are never looked at, and never logged
// (OPS-6). Package relay creates upstreams and sessions and runs them.
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
package upstream
