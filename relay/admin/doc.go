// Package admin has the pages of the admin port that show what a relay has and does, and those that take
// commands: the JSON types, which are stable and documented, the handlers, and the two interfaces by which
// they ask the relay. [State] gives copies, and holds no lock while a page encodes them. [Commands] changes
// what clients get.
//
// It does not own the port: package relay listens, says who may ask, and has the probes.
package admin
