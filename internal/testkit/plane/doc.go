// Package plane is a scriptable xDS control plane for tests of real clients. It
// serves one set of resources in every variant of the protocol (incremental and
// state of the world; aggregated, with a stream for each type, and REST), and a
// test tells it how to behave: see [Behaviour].
//
// A [Plane] keeps the resources that a test sets ([Plane.Apply]), and what each
// stream was sent. It sends the difference: several changes that a stream could not
// be sent yet are merged. It records each request and response ([Plane.Requests],
// [Plane.Responses]).
//
// A [Script] has no contents: a test serves its streams by hand, message by message.
//
// The package knows nothing of the relay and does not judge its clients. What a
// client ends up with is the test's to look at.
package plane
