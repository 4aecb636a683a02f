// Package baseline is the server that the benchmarks measure others against: on grpc-go,
// with the options that the relay has, it writes the same encoded bytes to every stream
// and does nothing else. What it takes is what grpc-go and the machine take.
//
// It looks at a stream's subscriptions, since it has to know what to send first, and
// drops every other request unread but for the fields that tell the two apart. It keeps
// nothing of its clients but where each stands in the sequence of updates. A stream
// costs one goroutine, which reads; a few senders write all updates to all streams. A
// client that does not read holds up those behind it, which a real server must not do.
//
// It is a control plane, too, as far as a relay needs one that answers wildcards and
// names: the one behind the relay in the benchmarks, so that the relay's control plane
// is not what is measured.
package baseline
