// Package demo is what xdsrelay-demo plays: a control plane, a relay and a fleet of
// clients in one process, joined by real gRPC on the loopback interface, and a
// view of what happens between them.
//
// [Run] plays five phases: the clients connect, resources change, the control
// plane is killed and new clients join nevertheless (OPS-1), it comes back with
// another state, and in the end every client's resources are compared with the
// control plane's. What it says it has measured: the control plane counts what
// it is asked and what it sends, the clients what they get and when, and the
// relay is asked nothing.
//
// The package owns the play, its resources (world.go) and its clients
// (fleet.go). What is on the screen is a pure function of a [Snapshot]
// (view.go), drawn by a [Screen] of the caller's.
//
// # Goroutines
//
// Run's own goroutine plays the phases and alone changes resources and starts
// clients. One goroutine draws, one serves the relay, and each client has one
// beside those of its stream. Run ends and waits for all of them.
package demo
