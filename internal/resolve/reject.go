package resolve

import (
	"slices"
	"sync"
)

// maxOrigins is how many of the last changes are remembered: what a client rejects was
// sent to it lately.
const maxOrigins = 256

// bring is what brought changes of one type: a change in the store of a tap.
type bring struct {
	typeURL string // in the resolved store
	source  Source
	from    string // their type there
	change  uint64 // the youngest of them there
}

// origin says what brought the changes of the resolved store after one up to another.
type origin struct {
	after, last uint64
	brings      []bring
}

// origins are the last ones, so that a rejection finds its way (ACK-7).
type origins struct {
	mu   sync.Mutex
	last []origin // guarded by mu, the oldest first
}

// maxBrings bounds what is remembered of one change: there are some dozens of types.
const maxBrings = 64

// brought notes what brought a change that is about to be applied.
func (r *Resolver) brought(typeURL string, t *tap, from string, change uint64) {
	b := bring{typeURL, t.source, from, change}
	if len(r.brings) < maxBrings && !slices.Contains(r.brings, b) {
		r.brings = append(r.brings, b)
	}
}

// note remembers what brought changes.
func (o *origins) note(after, last uint64, brings []bring) {
	if after == last || len(brings) == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.last) == maxOrigins {
		o.last = slices.Delete(o.last, 0, maxOrigins/2)
	}
	o.last = append(o.last, origin{after, last, brings})
}

// of gives what brought a change of a type.
func (o *origins) of(typeURL string, change uint64) []bring {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range o.last {
		if x.after < change && change <= x.last {
			return slices.DeleteFunc(slices.Clone(x.brings), func(b bring) bool { return b.typeURL != typeURL })
		}
	}
	return nil
}

// Reject tells that a client rejected a change of the resolved store. Where that came
// from one upstream alone, its session is told (ACK-7). It may be called from any
// goroutine and does not block.
func (r *Resolver) Reject(typeURL string, change uint64, reason string) {
	brings := r.origins.of(typeURL, change)
	for _, b := range brings {
		if b.source != brings[0].source {
			return // nobody knows which of them is to blame
		}
	}
	for _, b := range brings {
		b.source.Reject(b.from, b.change, reason)
	}
}
