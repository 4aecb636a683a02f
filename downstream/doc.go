// Package downstream is the xDS server: it holds the clients' streams.
//
// A [Server] serves the discovery services on a listener that it is given. Each
// stream is a state machine of its own: it reads what the client subscribes to,
// keeps a place in the stores that hold it, and sends what the client lacks. What
// belongs to one type on one stream (nonce, acknowledgement, legacy wildcard) is
// kept here; what the client has been sent is kept in the cache, as a cursor.
//
// There is one engine for all variants of the protocol. A variant is a method of a
// service: it says whether the stream serves one type or all, and in which form its
// requests come. Requests of both forms are read into one (discoveryRequest); what a
// state-of-the-world one changes is worked out and carried out like an incremental
// one.
//
// A stream has one goroutine: the handler reads requests and answers them. What is due
// at other times is sent by senders, which all streams share. Whose turn it is owns the
// stream's state. While a client does not read, whoever sends to it waits, and its
// requests do, so that the client's cost is what one pass collected, and its next
// response is the merged latest state (OPS-3).
//
// Clients that poll (REST-JSON) have no stream. Each poll is one request, which is
// held until there is something that the client lacks; what a stream would remember
// of it is in what it presents.
//
// Which store serves a name is the [Router]'s business. The package never sees an
// upstream.
package downstream
