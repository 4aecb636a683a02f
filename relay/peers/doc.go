// Package peers has relays help each other while their control plane is away. A relay that lacks something asks its
// peers for the image of a scope, in the format of snapshots, and a peer answers from its memory.
//
// It is one GET over HTTPS at a port of its own (peers.listen), under mutual TLS. A peer asks nobody for what it
// lacks, neither its own peers nor its control plane: so relays in a ring end with an answer, whatever they lack.
//
// An image opens a scope, since it is of the scope and not of a client. So each relay must have an identity of
// peers.identities, on both sides of a connection (Identity).
//
// The package owns the exchange on both sides and the connections to peers. It does not own when peers are asked
// (package relay), nor what becomes of an image (cache.Peers).
package peers
