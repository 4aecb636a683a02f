// Package connections bounds the connections of clients, over all listeners (LIM-1): how many there are,
// how many of them one address has, and how many new ones are served in a second. It does so before
// anything is read of a connection, so that neither TLS nor HTTP/2 costs anything.
//
// A connection beyond a limit of how many there may be is reset. A connection that comes too fast waits: a
// fleet that comes back after a restart is no attack, and a refused client would only come again. The
// package takes connections from the system as they come, so that those of one address do not stand in the
// way of others: addresses take turns.
//
// It also reads a connection slowly that sends far more than what handlers ask for: floods of pings,
// settings, resets, headers and empty frames cost their sender its connection, and others next to nothing
// (LIM-2).
//
// [Conn] has no buffer of its own, and gRPC keeps none for it while it is at rest. The package knows
// nothing of who a client is, but its address.
package connections
