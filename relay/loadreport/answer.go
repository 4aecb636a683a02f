package loadreport

import (
	"time"

	loadv3 "github.com/envoyproxy/go-control-plane/envoy/service/load_stats/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	// defaultInterval is for servers that say none, or zero: of that, gRPC's Go client
	// panics, and an Envoy reports without a pause (LRS-2).
	defaultInterval = 10 * time.Second
	// minInterval is the shortest one that clients are told. Envoy takes less than a
	// millisecond for zero.
	minInterval = 100 * time.Millisecond
)

// answer is what a control plane wants to be told, and how often. It is not changed.
type answer struct {
	response *loadv3.LoadStatsResponse
	interval time.Duration
}

// answerOf is what clients are told of a response: all of it, but for an interval that they
// cannot take.
func answerOf(r *loadv3.LoadStatsResponse) *answer {
	interval := defaultInterval
	if d := r.GetLoadReportingInterval(); d.IsValid() && d.AsDuration() > 0 {
		interval = max(d.AsDuration(), minInterval)
	}
	response := proto.CloneOf(r)
	response.LoadReportingInterval = durationpb.New(interval)
	return &answer{response, interval}
}

// equal reports whether clients would be told the same. It is not told them again: an Envoy
// begins its interval anew with each response.
func (a *answer) equal(b *answer) bool {
	return a != nil && b != nil && proto.Equal(a.response, b.response)
}
