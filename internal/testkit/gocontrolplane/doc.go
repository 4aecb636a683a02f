// Package gocontrolplane is a whole xDS management server in this process, for
// the demo and for the integration tests: go-control-plane's caches and its
// server on a gRPC listener, with counters of what it was asked and what it
// sent.
//
// A [ControlPlane] owns its state (a version of each resource by type and name),
// which outlives [ControlPlane.Stop]: as with a control plane that crashes and
// comes back, caches, streams and connections are lost, and what it knows is
// read anew, changed meanwhile or not. Versions are digests of the content, the
// same after a restart. It knows nothing of the relay: it is the other end.
//
// # What go-control-plane v0.14 does
//
// Tests and the demo build on the following, found by reading and, where a test
// can show it, held by this package's tests. Where a server may do otherwise, a
// relay must not rely on it.
//
//   - One response per request. A watch is spent by its response, and the next
//     one is made when the client answers: what changes meanwhile is merged. All
//     of it is the cache's whole map compared with name → version of the stream,
//     on every update and every ACK.
//   - Silence about what does not exist. A name that is not in the cache is
//     answered only when it appears; removed_resources holds it only if this
//     stream was sent it or presented a version of it. A relay learns of no
//     absence here (RES-6) and must not wait for one.
//   - The wildcard has every resource of the type: no cache tells members from
//     others. Names beside it make no difference (SUB-12 cannot be shown with
//     it). Each request with `*` and without a nonce is answered, if need be with
//     an empty response. Unsubscribing `*` makes [New]'s caches remove from the
//     client all that it does not name; [NewSnapshot]'s say nothing. Globs are
//     names like others, of nothing.
//   - A name subscribed again is not sent again (against SUB-6 and RES-15):
//     subscriptions are a set. After an unsubscribe it is. A request that
//     subscribes and unsubscribes one name leaves it unsubscribed.
//   - initial_resource_versions is what the stream is taken to hold, with the
//     first request for the type only. Matching versions are not mentioned again;
//     named ones that are all current get no response at all. [New]'s caches
//     answer versions of names that this request does not subscribe with
//     removed_resources, so versions must not be presented ahead of the
//     subscriptions that they belong to; [NewSnapshot]'s passes them over.
//   - A response that becomes ready between draining the responses and making
//     the next watch is sent after that watch has copied what the client holds:
//     the resource may be sent twice, and a removal that falls into the same
//     moment is told only when the ACK makes another watch. Should a response
//     for something else come first, it is never told.
//   - A NACK is counted by nobody and taken for an ACK.
//   - A type without a cache ends the whole ADS stream, with UNKNOWN: the caches
//     of all types have to be there from the start. The comment on MuxCache
//     speaks of a closed channel, which is of an earlier version.
//   - The legacy wildcard looks at what is subscribed only: a first request with
//     nothing but unsubscribes is a wildcard too (against SUB-4), and until a
//     request has subscribed something, unsubscribing `*` is passed over (against
//     SUB-3).
//
// With state-of-the-world streams:
//
//   - Full-state types are Listener and Cluster. [New]'s caches answer a change of
//     any other with what changed, ScopedRouteConfiguration included: who follows
//     RES-2 takes the scopes that are not in such a response for removed. The
//     snapshots' responses hold everything, whatever the type.
//   - The legacy wildcard is there for every type (against SUB-4), endpoints too.
//   - version_info is a number that counts the changes, of a type in [New]'s
//     caches and of everything in the snapshots', from the beginning after each
//     start: "1" again, with other contents. A version that does not differ keeps
//     the snapshots' from answering a stream's first request only for what the
//     stream was sent already; [New]'s answer it always.
//   - The snapshots' take `*` for the name of a resource. In ADS mode a request
//     with it is never answered, otherwise with an empty response. In ADS mode
//     names are answered only if all resources of the type are among them.
//   - [New]'s caches answer every request without version_info, and with it the
//     NACK of a stream's first response: at once, with a response (against STR-7).
//
// Over REST ([ControlPlane.REST]):
//
//   - Only the snapshots' can be fetched from. [New]'s caches answer with status
//     500.
//   - No request is held: a version that is current is answered with 304 at once
//     (against REST-1). Nothing but the version is looked at, so that names that
//     were not asked for before are missing in the answer, which is 304 too.
//   - Any method will do, and the content type is not looked at. What is not JSON
//     is answered with 400, another path, that of virtual hosts among them, with
//     404.
package gocontrolplane
