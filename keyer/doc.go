// Package keyer answers who is who: which resource a name means, and which
// scope a client belongs to. It turns (node, type, name) into the parts of the
// key under which the relay caches and subscribes.
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
//   - aggregation (AGG-1 to AGG-3): [Aggregation.Decide] maps a client's node
//     and TLS identity to a scope, and [UpstreamNode] builds the node that a
//     management server is shown for it.
//
// It does not own upstreams, tables or subscriptions. Everything here is a pure function of its arguments: no I/O,
// no goroutines, no state, so all of it may be called from any goroutine.
//
// Callers: config checks names and policies, downstream and relay ask for keys
// and scopes, cache sorts members into globs, upstream derives keys from what
// servers send. Key, GlobOf and Respell run once per resource and are kept free
// of allocations where the result allows it; Decide runs once per stream and
// type.
package keyer
