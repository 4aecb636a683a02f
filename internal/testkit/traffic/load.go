package traffic

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Load sends requests at a set rate from its start to its end, whether they are
// answered or not, so that no moment in which requests fail is missed.
type Load struct {
	// immutable
	client *Client
	addr   string
	host   string
	cancel context.CancelFunc

	running sync.WaitGroup // the goroutine that sends, and the requests

	mu       sync.Mutex
	sent     int
	done     int
	last     Outcome
	lastBy   map[string]time.Time // when the last request was sent that a backend answered
	failures []Outcome
}

// StartLoad sends requests to addr every interval until [Load.Stop], or the end of the
// test.
func StartLoad(tb testing.TB, addr, host string, interval time.Duration) *Load {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	l := &Load{client: NewClient(), addr: addr, host: host, cancel: cancel, lastBy: make(map[string]time.Time)}
	l.running.Go(func() { l.run(ctx, interval) })
	tb.Cleanup(l.Stop)
	return l
}

func (l *Load) run(ctx context.Context, interval time.Duration) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		l.mu.Lock()
		l.sent++
		l.mu.Unlock()
		// A request that was sent is waited for: the end of the load must not fail it.
		l.running.Go(func() { l.note(l.client.Get(context.WithoutCancel(ctx), l.addr, l.host, "/")) })
	}
}

func (l *Load) note(o Outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.done++
	l.last = o
	if o.Failure != "" {
		l.failures = append(l.failures, o)
		return
	}
	if l.lastBy[o.Body].Before(o.At) {
		l.lastBy[o.Body] = o.At
	}
}

// Stop ends the load and waits for the answers that are due.
func (l *Load) Stop() {
	l.cancel()
	l.running.Wait()
}

// Sent is the number of requests sent until now.
func (l *Load) Sent() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

// Done is the number of requests that were answered, or failed, until now.
func (l *Load) Done() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.done
}

// Failures are the requests that failed until now.
func (l *Load) Failures() []Outcome {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.failures)
}

// AnsweredSince reports whether a backend answered a request that was sent after t.
func (l *Load) AnsweredSince(t time.Time, backend string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lastBy[backend].After(t)
}

// Summary counts failures by reason.
func Summary(failures []Outcome) string {
	if len(failures) == 0 {
		return "none"
	}
	counts := make(map[string]int)
	for _, f := range failures {
		counts[f.Failure]++
	}
	var parts []string
	for _, why := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d × %s", counts[why], why))
	}
	span := failures[len(failures)-1].At.Sub(failures[0].At)
	return fmt.Sprintf("%s within %v", strings.Join(parts, ", "), span.Round(time.Millisecond))
}
