package downstream

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"
)

// inbox is what came on a client's stream, in responses of one form.
type inbox[R any] struct {
	h      *harness
	cancel context.CancelFunc
	acking bool // set before the first request

	reading sync.WaitGroup

	mu    sync.Mutex
	got   []*R // since they were last taken
	all   []*R
	ended time.Time
	err   error // what the stream ended with
}

// take returns what came since the last time, once nothing more comes.
func (c *inbox[R]) take() []*R {
	c.h.Helper()
	c.h.quiet()
	c.mu.Lock()
	defer c.mu.Unlock()
	got := c.got
	c.got = nil
	return got
}

// told holds what came since the last time to what was to come, in order. tell writes a response in one line.
func (c *inbox[R]) told(tell func(*R) string, want []string) []*R {
	c.h.Helper()
	got := c.take()
	lines := make([]string, 0, len(got))
	for _, r := range got {
		lines = append(lines, tell(r))
	}
	if !slices.Equal(lines, want) {
		c.h.Errorf("got\n\t%s\nwant\n\t%s", strings.Join(lines, "\n\t"), strings.Join(want, "\n\t"))
	}
	return got
}

// endedWith holds how the stream ended to what was expected.
func (c *inbox[R]) endedWith(code codes.Code, part string) {
	c.h.Helper()
	c.h.quiet()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil || grpcstatus.Code(c.err) != code || !strings.Contains(c.err.Error(), part) {
		c.h.Errorf("stream ended with %v, want %v: …%s…", c.err, code, part)
	}
}
