// Package resolve finds out what stands behind names that the relay resolves by
// itself: names with alternatives (LOC-5), and inline entries of list collections
// (LIST-4). A redirect is content like any other: the client follows it (LOC-1).
//
// A [Resolver] fills one cache.Store, whose keys are such names in their resolved
// form (keyer.ResolvedKey). It takes that store's demand as an upstream session would,
// reads the stores in which the names that it is led to live, and applies what it
// finds. Clients are served from the resolved store as from any other: nobody but the
// resolver knows the difference.
//
// # How it works
//
// A tap is the resolver's place in one other store, that of an upstream's xdstp names.
// It has a lead for each name that is read there, and a fold for each glob. A node is
// one name of the resolved store; whenever one of its leads, or what is known of an
// upstream, has changed, it looks again: which of its places serves, and what stands
// there. That is a function of what the leads hold and of which place served before; the
// leads that the last look passed by are what the node depends on. A glob of the
// resolved store passes on what comes from the fold of the place that serves, one by one.
//
// All leads of a tap are taken at one point of their upstream's sequence, and what
// follows from it is applied at once.
//
// # Alternatives
//
// A place is given up for the next one that is reached once its upstream has been
// unreachable for longer than Config.AlternativeAfter, and taken up again when it is
// reached and known. As long as a stream stands, though nothing was said on it yet, the
// upstream is not given up. Until the next place has said something what clients hold stays,
// and a name that an alternative does not have is not taken away: not existing is not
// unreachable. What an alternative's glob has is all there is, as soon as it is known to
// be all. A node stays subscribed to the places before the one that serves, so that they
// are fresh when they come back, and known to be there. If one of them has said something that is not
// to be cached, the node goes with its last client (TTL-5).
//
// # Goroutines and locks
//
// One goroutine, Run's, owns everything but the list of taps that were rung and the
// records for [Resolver.Reject], which have a lock each; nothing is called under them.
package resolve
