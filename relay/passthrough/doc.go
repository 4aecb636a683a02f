// Package passthrough serves streams of clients 1:1: each has a stream of its own to the control plane, by
// the same method. Messages pass byte for byte, in order, in both directions, and the status with which the
// control plane ends its stream is that of the client's stream. Nothing is shared, held, ordered or kept. So
// "is it the relay?" has an answer.
//
// The package owns these streams. It does not own where a client belongs, what it may have, and connections:
// package relay says so. Nothing is buffered: each direction has one message in hand, and flow control does the
// rest. A name that a client may not have ends its stream: a message is never edited.
package passthrough
