// Package downstream is the xDS server: it serves the clients' streams and polls.
//
// A [Server] serves the discovery services on a listener that it is given. Each stream is a state
// machine. It reads the client's subscriptions, joins the stores that have the resources, and
// sends everything that the client lacks. The stream keeps the protocol's state of each type:
// nonces, acknowledgements, versions, refused names. The store keeps the client's position, and so
// what the client was sent.
//
// One engine serves all variants of the protocol. A variant is a method of a service: it decides
// whether the stream serves one type or all, and which form its requests have. Requests of both
// forms are read into one struct (discoveryRequest). From a state-of-the-world request the stream
// works out the changes, and carries these out like those of an incremental request.
//
// A stream has one goroutine, the handler, which reads requests and answers them. Senders, which
// all streams share, send everything that is due at other times. The handler or a sender owns the
// stream's state (ownership). While a client does not read, the owner waits in SendMsg and later
// requests wait for the owner. So a client costs the relay no more than one collected delivery,
// and its next response is the merged latest state (OPS-3).
//
// Clients that poll (REST-JSON) have no stream. A poll is one request, which the server holds
// until the client lacks something. The request itself presents everything that a stream would
// remember.
//
// The [Router] decides which store serves a name. The package never sees an upstream.
//
// The files use each other in one direction. From the bottom: limits, flow and the other parts of
// a stream's state; stream, which joins them; ack, subscribe, send and deliver, which are the
// protocol; serve and server.
package downstream
