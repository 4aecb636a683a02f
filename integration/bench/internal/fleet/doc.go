// Package fleet is thousands of xDS clients in one process, cheap enough not to be
// what a benchmark measures: HTTP/2 over non-blocking sockets, a few event loops,
// no goroutine and no gRPC per client.
//
// A [Fleet] owns its clients and what each of them holds. It knows from a
// [content.Catalogue] which contents there are, so that a client notices a resource
// that no server was given as soon as it comes, and it knows what each client should
// hold in the end ([Fleet.Target], [Fleet.Check]). It does not know the servers.
//
// A client does what the protocol asks of it and no more: it subscribes, keeps what
// it is sent, and acknowledges each response at once. It never rejects one: what it
// would have to reject ends the benchmark. Of HTTP/2 it speaks what a gRPC client
// needs without TLS, flow control in both directions included.
//
// It needs Linux, for epoll.
package fleet
