package relay

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// reachPause is the pause between attempts to reach an upstream for the first
// time.
const reachPause = time.Second

// reach tries to connect to an upstream until that succeeds once. Sessions begin
// with the first client that needs them, and clients may be kept away until the
// relay is ready: so somebody has to look before there is a session.
func (r *Relay) reach(ctx context.Context, p *plane) {
	for first := true; ; first = false {
		err := p.upstream.Reach(ctx)
		if err == nil {
			r.mu.Lock()
			r.reached[p.name] = true
			r.mu.Unlock()
			return
		}
		if first && ctx.Err() == nil {
			r.log.Warn("an upstream cannot be reached, so the relay is not ready", "upstream", p.name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reachPause):
		}
	}
}

// ready says whether clients should come: the relay listens, is not draining, and
// has reached each upstream once. The reason says what is missing.
func (r *Relay) ready() (reason string, ok bool) {
	switch {
	case r.draining.Load():
		return "draining", false
	case !r.serving.Load():
		return "not listening yet", false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var missing []string
	for _, name := range slices.Sorted(maps.Keys(r.hub.planes)) {
		if !r.reached[name] {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		return fmt.Sprintf("not reached yet: %s", strings.Join(missing, ", ")), false
	}
	return "ready", true
}
