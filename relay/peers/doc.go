// Package peers has relays help each other while their control plane is away. A relay that lacks
// something asks its peers for it, and a peer answers from its cache.
//
// It is one exchange on an incremental ADS stream. The relay that asks puts a marker into the
// stream's metadata: which process it is, and which store it means. The peer confirms the marker in
// its header, answers each request once from the store's content, and ends the stream. It asks
// nobody for what it lacks, neither its own peers nor its control plane: so relays in a ring end
// with an answer, whatever they lack.
//
// The marker opens each scope, since it names the store and not a client. So it counts at one listener
// only, which serves no clients, and only from relays with an identity in peers.identities: the URI of a client
// certificate that was verified. Elsewhere the marker is ignored, and the stream is an ordinary client's.
//
// Both sides bound an exchange, in bytes and in time.
//
// The package owns the exchange on both sides and the connections to peers. It does not own when
// peers are asked (package relay), nor what becomes of the answer (cache.Peers).
package peers
