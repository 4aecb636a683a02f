package metrics

import (
	"sync"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
)

// largest shows the largest message of a kind as a share of a limit. A message that is no larger than one before costs
// no more than a look.
type largest struct {
	gauge prometheus.Gauge
	bytes atomic.Int64
	mu    sync.Mutex // held while it grows
}

func (l *largest) see(bytes int, limit *atomic.Int64) {
	if int64(bytes) <= l.bytes.Load() {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if most := limit.Load(); int64(bytes) > l.bytes.Load() && most > 0 {
		l.bytes.Store(int64(bytes))
		l.gauge.Set(float64(bytes) / float64(most))
	}
}
