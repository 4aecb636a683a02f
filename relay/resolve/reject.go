package resolve

import (
	"slices"
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/ack"
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

// of gives what brought changes of a type.
func (o *origins) of(typeURL string, changes ack.Span) (all []bring) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, x := range slices.Backward(o.last) {
		if x.last < changes.First {
			break
		}
		if (ack.Span{First: x.after + 1, Last: x.last}).Touches(changes) {
			for _, b := range x.brings {
				if b.typeURL == typeURL {
					all = append(all, b)
				}
			}
		}
	}
	return all
}

// Tell tells what became of changes of the resolved store with a client: the sessions that
// brought them hear of it (ACK-7). Of a rejection they do not if they are several: nobody
// knows which of them is to blame. It may be called from any goroutine and does not block.
func (r *Resolver) Tell(w ack.Outcome) {
	brings := r.origins.of(w.TypeURL, w.Of)
	if w.Kind == ack.Rejected && slices.ContainsFunc(brings, func(b bring) bool { return b.source != brings[0].source }) {
		return
	}
	var open []share
	if w.Open != 0 {
		open = shares(r.origins.of(w.TypeURL, ack.Span{First: w.Open, Last: w.Open}))
	}
	for _, s := range shares(brings) {
		w.TypeURL, w.Of, w.Open = s.from, s.changes, 0
		if i := slices.IndexFunc(open, s.alike); i >= 0 {
			w.Open = open[i].changes.First
		}
		s.source.Tell(w)
	}
}

// share is what one source brought under one type.
type share struct {
	source  Source
	from    string
	changes ack.Span // of the source's store
}

func (s share) alike(o share) bool { return s.source == o.source && s.from == o.from }

// shares has what was brought by the same source under the same type together.
func shares(brings []bring) (all []share) {
	for _, b := range brings {
		one := share{source: b.source, from: b.from}
		i := slices.IndexFunc(all, one.alike)
		if i < 0 {
			i, all = len(all), append(all, one)
		}
		all[i].changes.Add(b.change)
	}
	return all
}
