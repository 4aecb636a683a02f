// Package wire knows the discovery envelopes as bytes: it cuts a response of
// either variant into resources without touching their payloads, keeps each in one
// immutable piece of memory, and puts responses together again as gather lists
// of those pieces, for any number of clients, without marshalling or copying.
//
// It owns the stored form of a resource ([Resource]), the decoding of what a
// server sends ([Response], and [Received] for the session that answers it), the building of what
// clients get ([Builder], [Message]), the decoding of what clients ask ([DeltaRequest],
// [StateRequest]) and the gRPC codec that moves all of it ([Codec]). It does not own names (package keyer),
// versions held by anybody, or any decision about who gets what: those are the cache's
// and the streams'.
//
// Of a payload nothing is read but the name, and that only where a
// state-of-the-world response gives it no other.
//
// Package upstream decodes with it, package cache keeps its resources, package
// downstream receives requests, builds and sends.
//
// # Stored form
//
// A resource lies in one allocation, in the form in which it stands in an
// incremental response:
//
//	0x12 len                          tag and length in DeltaDiscoveryResponse.resources
//	  [name]                          field 3
//	  [resource_name                  field 8: its name first,
//	      ---- from here on shared by every spelling of the name ----
//	   constraints, unknown fields]
//	  [version, aliases, cache_control, metadata, unknown fields …]   as they came
//	  [version: the digest]           only if the server gave none (ACK-4)
//	  [0x12 len Any]                  the payload
//
// The name comes first so that another spelling of it (NAME-4) replaces a
// prefix and shares the rest. The Any comes last, and since DiscoveryResponse
// numbers its resources 2 as well, that tail is exactly what a state-of-the-world
// response holds. The ttl (field 6) is taken out: whether and which ttl a
// client gets depends on the client (TTL-1, TTL-2). Where one goes out with the
// resource it stands first, in a few bytes of the response's own.
//
// Name and version are strings that lie in these bytes: who keeps one of them without
// the resource has to copy it, or keeps all of the payload.
//
// # Strictness
//
// Decoding accepts what proto.Unmarshal accepts and refuses what clients would
// refuse: everything that is passed on is checked as deeply as the generated
// types check it, UTF-8 of strings included, so that no server can make the
// relay break a client's stream. What is not passed on is skipped
// without a look inside, and of control_plane only the identifier is read, if it can be.
// Requests are held to the same, save that a node is looked at
// only when it is wanted. The value of an Any is opaque to both, but for the name of a
// bare payload: there the outermost fields must be well formed.
package wire
