// Package rules carries out the aggregation rules (AGG-1 to AGG-5): it says which
// clients share what names mean that are not xdstp names.
//
// Rules are CEL expressions over the client's node, its TLS identity, the resource
// type and, where a control plane shards by it, the resource name. [Compile] checks
// them all at once, against the messages' types, and gives a [Set]. A [Subject] is one
// client before a set: it is asked once per type, and per name only where a rule looks
// at the name.
//
// Everything here is a pure function of its arguments: no I/O, no goroutines. A Set is
// immutable and may be used from any goroutine, a Subject by one at a time.
package rules
