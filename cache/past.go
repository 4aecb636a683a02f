package cache

import (
	"maps"
	"slices"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A store remembers the last states that clients had, so that an operator can go back to one
// (GATE-4). A state lasts until content changes. Changes that follow each other closely are one
// burst: a push of a control plane comes in several responses. A burst has what its names had before,
// as references to the resources, and nothing while nothing changes. Endpoints are left out: those of
// before may be gone. So are types that Source.Unrecorded names, the first answers to questions, and
// content that is not to be cached.

const (
	// burstQuiet is the time without a change that ends a burst.
	burstQuiet = 2 * time.Second
	// burstMost is how long a burst lasts at most.
	burstMost = 10 * time.Second
	// pastOverhead is about what a burst takes for each name, beside content.
	pastOverhead = 128
)

// past is the states before the present one. Guarded by Store.applyMu.
type past struct {
	number uint64    // of the present state
	since  time.Time // it is the present one
	bursts []*burst  // the oldest first
	closed bool      // the next change begins a burst

	rollsBack bool // what clients are given now answers no question
}

// burst is the changes between two states.
type burst struct {
	number       uint64    // of the state before it
	since        time.Time // of that state
	began, ended time.Time
	before       map[pastName]*wire.Resource // what clients had; nil: nothing
	bytes        int64
}

// pastName is a name in a table.
type pastName struct {
	table tableKey
	key   string
}

// burst is the burst that a change belongs to.
func (p *past) burst(now time.Time) *burst {
	if n := len(p.bursts); n > 0 && !p.closed {
		if b := p.bursts[n-1]; now.Sub(b.ended) < burstQuiet && now.Sub(b.began) < burstMost {
			b.ended = now
			return b
		}
	}
	b := &burst{number: p.number, since: p.since, began: now, ended: now, before: make(map[pastName]*wire.Resource)}
	p.bursts = append(p.bursts, b)
	p.number, p.since, p.closed = p.number+1, now, false
	return b
}

// forget forgets the oldest state, and returns the size of what is freed.
func (p *past) forget() (size int64) {
	size = p.bursts[0].bytes
	p.bursts = slices.Delete(p.bursts, 0, 1)
	return size
}

// before is what clients had in the state of a number, of all names that changed since. ok is false
// if the state is not known.
func (p *past) before(number uint64) (names map[pastName]*wire.Resource, ok bool) {
	if number > p.number || number < p.number && (len(p.bursts) == 0 || number < p.bursts[0].number) {
		return nil, false
	}
	names = make(map[pastName]*wire.Resource)
	for _, b := range slices.Backward(p.bursts) {
		if b.number < number {
			break
		}
		maps.Copy(names, b.before)
	}
	return names, true
}
