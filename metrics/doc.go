// Package metrics turns the events of the other packages into Prometheus metrics.
//
// It owns the names, labels and help texts of everything under "xdsrelay_", and
// docs/metrics.md lists them. It does not serve them: the caller of [New] passes a
// Registerer in and exposes it. The package decides nothing and logs nothing.
//
// Each package reports through its own interface: a [Metrics] gives an observer to each.
// Some numbers would be wrong or expensive to count with each event: sessions by state,
// staleness, sizes of tables. Each scrape reads them from a [Source].
//
// Label values come from fixed sets: type URLs, which clients choose, are mapped to
// short names and "other", and nodes, peers and resource names are never labels
// (OPS-6). If the label values of a series are known in advance, the series exists from
// the start, at zero, so that rate() does not lose the first increase.
//
// Observers' methods may be called from any goroutine. They take no lock that is held
// for long. Methods that are called per request or response do not allocate.
package metrics
