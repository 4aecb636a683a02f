// Package loadreport adds up the load reports of clients, and passes the sums on to their
// control plane (LRS-1, LRS-2).
//
// It has two sides. A [Server] is the load reporting service towards the clients: each has
// a stream, on which it reports. A [Scope] has the clients of one scope of an upstream, and
// one stream to that upstream, as long as a client reports. What the control plane wants to
// be told, and how often, goes from there to all clients of the scope.
//
// The sums themselves are pure: a report goes into them (sums.add), and they make a report
// (sums.report). No clock and no stream plays a part.
//
//   - Counters are added up until they are sent, and begin anew then. What a client reported
//     is in exactly one report to the control plane.
//   - Gauges (requests in progress, open connections) are no sums over time. The newest
//     value of each client counts, until the client reports again or leaves.
//   - The interval of a report is the mean, over the clients that reported on the cluster, of
//     the time for which each did. A client's intervals follow each other, so they add up;
//     the clients' lie side by side, so they do not. Of the mean, unlike of the longest, it
//     makes no difference that one client's report came just before and another's just after
//     the relay's own.
//
// The protocol has no acknowledgement. A report that was handed to a stream is not sent
// again, so that nothing is counted twice: if the stream breaks at that moment, the report
// may be lost. All that was not handed over stays, and goes with the next report.
//
// The package does not know where clients belong, and not how a control plane is reached:
// package relay does, and gives it a [Finder] and a [Source] for each scope.
package loadreport
