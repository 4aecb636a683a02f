// Package deltaclient is a small incremental xDS client, over ADS (VAR-4) or with
// a stream for each type (VAR-2). It stands behind `xdsrelay watch`, is each of
// the thousand clients of the demo's fleet, and is the client that tests put in
// front of a relay.
//
// What a client does is package xdsclient's; this package owns the incremental
// requests and what they say: only what changes in the subscriptions, and at the
// beginning of a stream the versions of what is held (RES-12).
package deltaclient
