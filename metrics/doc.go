// Package metrics turns what happens in the other rooms into Prometheus metrics.
//
// It owns the names, labels and help texts of everything under "xdsrelay_", and
// docs/metrics.md lists them. It does not serve them: whoever calls [New] passes a
// Registerer in and exposes it. It decides nothing and logs nothing.
//
// The rooms report through interfaces of their own: a [Metrics] hands each of them
// an observer. What would be wrong or dear to count as it happens (sessions by
// state, staleness, what the tables hold) is read from a [Source] when somebody
// scrapes.
//
// Label values come from fixed sets: type URLs, which clients choose, are mapped to
// short names and "other", and nodes, peers and resource names are no labels at all
// (OPS-6). Every series whose label values can be known is there from the start, at
// zero, so that a first increase is not lost to rate().
//
// Observers' methods may be called from any goroutine. They take no lock that can
// be held for long, and those that are called per request or response do not
// allocate.
package metrics
