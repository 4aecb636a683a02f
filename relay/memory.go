package relay

import (
	"context"
	"runtime"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/load"
)

// memory has the relay take on less while memory is short (LIM-3): those who are served go on
// being served.
type memory struct {
	*load.Memory

	relay *Relay
}

// run watches the memory until ctx ends.
func (m *memory) run(ctx context.Context) {
	r := m.relay
	var collected time.Time
	m.Run(ctx, func(now load.Level, used int64) {
		switch by := []any{"used", used, "limit", m.Limit()}; now {
		case load.Tight:
			r.log.Warn("memory is short: what no client uses goes, and clients of new scopes are refused", by...)
		case load.Full:
			r.log.Warn("memory is very short: new streams and polls are refused", by...)
		default:
			r.log.Info("there is memory again: new clients and scopes are served", by...)
		}
	}, func() {
		r.cache.Shed()
		r.hub.shed()
		// What went is known to be gone after a collection, and Go may see no need for one.
		if time.Since(collected) >= collectEvery {
			runtime.GC()
			collected = time.Now()
		}
	})
}

// collectEvery is the shortest pause between two garbage collections that the relay asks for.
const collectEvery = 5 * time.Second

// memoryRetry is after how long a refused client is to try again.
const memoryRetry = 5 * time.Second

// admit gives the status for a new stream or poll that is not taken on, and counts it; nil: it is.
func (m *memory) admit() error {
	if m == nil || m.Level() < load.Full {
		return nil
	}
	m.relay.metrics.Downstream().Limited(downstream.LimitMemory)
	s := status.New(codes.Unavailable, "the relay is short of memory and takes on no new clients: try again in some seconds")
	if detailed, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(memoryRetry)}); err == nil {
		s = detailed
	}
	return s.Err()
}
