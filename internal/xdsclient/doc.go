// Package xdsclient is what the xDS clients for `xdsrelay watch`, the demo and
// the tests have in common, whatever variant of the transport they speak: what
// is subscribed and held, what a response changes of it, streams with back-off,
// acknowledgements that are held back, and reading that pauses.
//
// The variants are packages: deltaclient speaks the incremental protocol,
// stateclient the state-of-the-world one over gRPC and over REST. Each is a
// [Protocol], which knows the messages and decides nothing else, and a function
// that makes a [Client] with it.
//
// A [Client] owns what it subscribes to and what it holds: name and version of
// every resource, and the payload or a digest of it where asked for ([Keep]). It
// answers every response (STR-8), says in [Options].OnResponse what each one
// changed, and goes on where it was when it opens a stream again. It does not
// own its connection: many clients may share one, or each has its own ([Dial]).
//
// A client has one stream for all types, or one for each type. [Client.Run] is
// one stream of each, [Client.Follow] one after the other with back-off. A stream
// has two goroutines, one that reads and one that writes: a client that wrote
// where it reads would wait forever for a server that does the same. With one
// stream the caller's goroutine is the one that reads. All have ended when the
// call returns.
//
// The client is made to be watched and to be misused, not to configure a proxy.
// It says what a server sends that it was not asked for, it can hold its
// acknowledgements back and stop reading ([Client.HoldAcks], [Client.Pause]), and
// it does not announce that it understands a ttl (TTL-1), so that a server tells
// it of expiry as of any other removal.
package xdsclient
