// Package relay joins the rooms: it routes names to upstreams, keeps one session
// per upstream and scope for as long as it is needed, starts everything, drains
// it, and shows it on the admin port.
//
// A [Relay] owns the cache, the upstreams, the hub of sessions and the server
// towards the clients. It does no protocol of its own.
package relay
