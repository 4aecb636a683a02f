// Package keyer answers who is who: which resource a name means, and who a client is.
// Its sub-package rules says which scope a client belongs to.
//
// It owns
//
//   - xdstp names (NAME-1 to NAME-8): [Parse] to RFC 3986, the canonical form,
//     the directives of the fragment, and the check against a request's type;
//   - locators: [Locator] spells the structured form that directories and
//     redirects have (LIST-2, LOC-1), [Name.Alternatives] are the places of one
//     resource (LOC-5);
//   - authorities (LOC-3): [Authorities] finds who claims one, by name or by a
//     suffix pattern;
//   - keys: [Key] is the identity of any resource name inside its table, and
//     [ResolvedKey] where names with directives are resolved;
//   - globs (GLOB-1, GLOB-3): [GlobOf], [IsGlob], [MemberOf], and [Respell],
//     which gives a member the spelling in which a client asked for its glob
//     (NAME-4);
//   - peers: [Peer] is who a client is to TLS.
//
// It does not own upstreams, tables or subscriptions. Everything here is a pure function of its arguments: no I/O,
// no goroutines, no state, so all of it may be called from any goroutine.
//
// Callers: config checks names, downstream and relay ask for keys, cache sorts members into globs, upstream derives keys from what
// servers send. Key, GlobOf and Respell run once per resource and are kept free
// of allocations where the result allows it.
package keyer
