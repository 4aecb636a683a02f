// Package deltaclient is a small incremental ADS client (VAR-4). It stands
// behind `xdsrelay watch`, is each of the thousand clients of the demo's fleet,
// and is the client that tests put in front of a relay.
//
// A [Client] owns what it subscribes to and what it holds: name and version of
// every resource, and the payload or a digest of it where asked for ([Keep]). It
// answers every response (STR-8), says in [Options].OnResponse what each one
// changed, and presents what it holds when it opens a stream again (RES-12). It
// does not own its connection: many clients may share one, or each has its own
// ([Dial]).
//
// [Client.Run] is one stream, [Client.Follow] one after the other with back-off.
// Either has two goroutines, the caller's, which reads, and one that writes: a
// client that wrote where it reads would wait forever for a server that does
// the same. Both have ended when the call returns.
//
// The client is made to be watched and to be misused, not to configure a proxy.
// It says what a server sends that it was not asked for, it can hold its
// acknowledgements back and stop reading ([Client.HoldAcks], [Client.Pause]), and
// it does not announce that it understands a ttl (TTL-1), so that a server tells
// it of expiry as of any other removal.
package deltaclient
