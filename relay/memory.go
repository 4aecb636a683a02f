package relay

import (
	"context"
	"runtime"
	"time"

	"github.com/xdsrelay/xdsrelay/relay/load"
)

// memory has the relay evict content and end sessions without clients while memory is short (LIM-3).
// load.Admission decides which clients are refused then.
type memory struct {
	*load.Memory

	relay *Relay
}

// run watches the memory until ctx ends.
func (m *memory) run(ctx context.Context) {
	r := m.relay
	var collected time.Time
	m.Run(ctx, func(now load.Level, used int64) {
		r.server.SetShort(now != load.Calm)
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
