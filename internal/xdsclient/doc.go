// Package xdsclient is the xDS client of `xdsrelay watch`, of the demo's fleet and of
// the tests that stand in front of a relay. It speaks every [Form]: incremental and
// state of the world over gRPC, over ADS or with a stream for each type, and REST.
//
// A [Client] owns what it subscribes to and what it holds: name and version of
// every resource, and the resource where asked for. It answers every response
// (STR-8), says in [Options].OnResponse what each one changed, and goes on where it
// was when it opens a stream again. It does not own its connection: many clients may
// share one, or each has its own ([Dial]).
//
// A client has one stream for all types, or one for each type. [Client.Run] is
// one stream of each, [Client.Follow] one after the other with back-off. A stream
// has two goroutines, one that reads and one that writes: a client that wrote
// where it reads would wait forever for a server that does the same. With one
// stream the caller's goroutine is the one that reads. All have ended when the
// call returns.
//
// In state-of-the-world forms a resource without a version has a digest of its
// payload as version. Of a full-state type, Listener, Cluster or
// ScopedRouteConfiguration, what a response does not hold is removed (RES-8); of
// the others it stays, and a server has no word for a removal. Nor has it one for
// a name that does not exist: such a name stays unanswered. Over REST payloads are
// decoded from JSON, so that only types which are part of this program can be
// received, and fields unknown to it are lost.
//
// The client is made to be watched and to be misused, not to configure a proxy.
// It says what a server sends that it was not asked for, it can hold its
// acknowledgements back and stop reading ([Client.HoldAcks], [Client.Pause]), and
// it does not announce that it understands a ttl (TTL-1), so that a server tells
// it of expiry as of any other removal.
package xdsclient
