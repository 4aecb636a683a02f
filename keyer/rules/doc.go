// Package rules carries out the aggregation rules (AGG-1 to AGG-5): it says which
// clients share what names mean that are not xdstp names.
//
// Rules are CEL expressions over the client's node, its TLS identity, the resource
// type and, where a control plane shards by it, the resource name. [Compile] checks
// them all at once, against the messages' types, and gives a [Set]. A [Subject] is one
// client before a set: it is asked once per type, and per name only where a rule looks
// at the name.
//
// # Expressions
//
// The variables are
//
//   - node: the client's, an envoy.config.core.v3.Node. Whatever looks at it fails for a
//     client that gave none, and so does a key of its metadata that is not there;
//   - type: the type URL. lds, cds, rds, eds, sds, srds, vhds, rtds and ecds stand for
//     those of their resources;
//   - name: the resource name, "*" for all there are. It is never an xdstp name;
//   - peer: who the client is to TLS, with the fields spiffe, subject, dns, uris, emails
//     and ips, the lists sorted;
//   - upstream: the name of the default upstream.
//
// There are CEL's standard library without what has to do with time, and its extensions
// for optional values, strings, regular expressions, base64, numbers (math) and cel.bind.
// All of it gives the same for the same client, anywhere and at any time.
//
// A match has to be bool, a node field a string, a value of node metadata what JSON can
// hold, or an optional of it: one without value leaves its key out. What metadata holds
// has no type before there is a client, so a match may also be, say, node.metadata.enabled:
// the rule fails for clients for which that is no bool. Parts of a scope may be anything
// but NaN.
//
// Compile also refuses what is right to CEL and cannot be meant, such as type compared
// with "cds", a regular expression given to replace, or a part of a scope that looks at
// nothing.
//
// # Requirements
//
// [CompileVerify] makes a [Verifier] of expressions over node and peer alone. They say which
// nodes a client may present (ACC-5).
//
// # Bounds
//
// A client may send megabytes of metadata (OPS-5). Expressions that walk over lists or
// maps stop at a cost, and fail. All others take time in proportion to the node at most:
// regular expressions, formats and what is put in for something are written out in the
// rule, never a client's, and regular expressions are tried on texts of up to 16 KiB.
// Metadata is read where it is, without copying.
//
// # Scopes
//
// A scope is the rule's name and its parts, as in sidecars["web","eu-1a"], and two are
// equal exactly if rule and parts are: text is quoted, numbers are not, whole numbers are
// written alike whether they are integers or doubles, maps and messages are sorted. Of a
// scope beyond 200 bytes the beginning is shown, and a hash stands for the whole; such a
// scope does not end in a bracket, which all others do. Load balancing features of the
// clients are a second pair of brackets (AGG-3).
//
// Everything here is a pure function of its arguments: no I/O, no goroutines. A Set is
// immutable and may be used from any goroutine, a Subject by one at a time.
package rules
