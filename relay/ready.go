package relay

import (
	"context"
	"fmt"
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
		from, there := r.hub.reachable(p)
		if !there {
			return
		}
		err := from.Reach(ctx)
		p.reaching.try(err, time.Now())
		if err == nil {
			p.reached.Store(true)
			r.unreached() // the relay may be ready now, whether somebody asks or not
			return
		}
		if first && ctx.Err() == nil {
			r.log.Warn("an upstream is unreachable", "upstream", p.name, "error", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(reachPause):
		}
	}
}

// unreached lists the upstreams that keep the relay from being ready. Once all of them
// were reached there are none, whatever a reload adds: clients that are served must not
// be sent away for an upstream that they may not need.
func (r *Relay) unreached() []string {
	if r.complete.Load() {
		return nil
	}
	var missing []string
	for name, p := range r.hub.present() {
		if !p.reached.Load() {
			missing = append(missing, name)
		}
	}
	if len(missing) == 0 {
		r.complete.Store(true)
	}
	slices.Sort(missing)
	return missing
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
	if missing := r.unreached(); len(missing) > 0 {
		return fmt.Sprintf("not reached yet: %s", strings.Join(missing, ", ")), false
	}
	return "ready", true
}
