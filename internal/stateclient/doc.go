// Package stateclient is a small state-of-the-world xDS client: over ADS (VAR-3),
// with a stream for each type (VAR-1), or polling REST (VAR-5). It stands behind
// `xdsrelay watch` and is for tests and the demo what deltaclient is for the
// incremental variants, with the same methods.
//
// What a client does is package xdsclient's. This package owns the requests, each
// of which has all names of its type, the decoding of responses into resources,
// and the polling.
//
// Resources are named by field 1 of their payload, as in every xDS type, or by the
// envoy.service.discovery.v3.Resource that they are wrapped in (RES-13). One
// without a version has a digest of its payload as version, the one that package
// wire gives it too. Of a full-state type, Listener, Cluster or
// ScopedRouteConfiguration, what a response does not hold is removed (RES-8); of
// the others it stays, and a server has no word for a removal. Nor has it one for
// a name that does not exist: such a name stays unanswered.
package stateclient
