// Package compare plays the same random walks against two builds of the relay, and compares what each client
// is sent. It is for changes that are to change nothing: "make soak SUITE=compare OLD=REV".
//
// A seed is a walk: a configuration, three clients and a list of steps (plan_test.go). The two builds are
// processes. Each has a control plane of its own, and clients of its own, which do the same: they subscribe,
// acknowledge, reject, stop reading, and come back with what they hold; the control plane changes, loses its
// streams, goes, and comes back with other content. The step is over when both builds are quiet: each client that
// reads has a marker that the control plane changed behind all else, the control plane has an answer to each of its
// responses, and for a while no client was sent a response (side_test.go).
//
// The resources, removals and errors that a client was sent in a step are compared, and not how they were cut into
// responses (trace_test.go).
//
// Without builds the clients are on the control planes themselves: that tests the package.
package compare
