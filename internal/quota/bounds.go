package quota

import (
	"iter"
	"sync"
)

// Bounds bounds something of which many have a part, in all (LIM-1). So many of each part are free: they do
// not count, as who has the part costs more than they do. It may be used from any goroutine.
type Bounds struct {
	free int // immutable

	mu    sync.Mutex // guards what follows
	limit Limit
	taken int
	usage Usage              // of what is taken
	large map[*Part]struct{} // parts of which something counts
}

// NewBounds has so many of each part be free, and no limit.
func NewBounds(free int) *Bounds { return &Bounds{free: free} }

// Set changes how much there may be. Parts that are beyond it stay as large as they are.
func (b *Bounds) Set(l Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = l
}

// Taken is how much there is that counts.
func (b *Bounds) Taken() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// all lists who has how much. The caller holds mu.
func (b *Bounds) all() iter.Seq2[Client, int] {
	return func(yield func(Client, int) bool) {
		for p := range b.large {
			if !yield(p.who, p.counted) {
				return
			}
		}
	}
}

// Part is what one has. One goroutine at a time uses it.
type Part struct {
	bounds *Bounds
	size   int

	// guarded by Bounds.mu
	counted int
	who     Client // once something counts
}

// Begin begins a part. End must be called.
func (b *Bounds) Begin() *Part { return &Part{bounds: b} }

// Add reports whether a part may have n more. who is asked who has it.
func (p *Part) Add(n int, who func() Client) bool {
	p.resize(p.size+n, who, func(more, room int) int {
		if more > room {
			return 0
		}
		return more
	})
	return p.counted == p.countable()
}

// Grow makes a part as large as size, or as large as it may be if that is less, and returns how large it is. It
// makes none smaller.
func (p *Part) Grow(size int, who func() Client) int {
	if before := p.size; size > before {
		p.resize(size, who, func(more, room int) int { return min(more, room) })
		p.size = max(before, min(size, p.bounds.free+p.counted))
	}
	return p.size
}

// Set makes a part as large as size, whatever there is.
func (p *Part) Set(size int, who func() Client) {
	p.resize(size, who, func(more, _ int) int { return more })
}

// resize makes a part as large as size. take says how much of what is more counts, beside how much there is room for.
func (p *Part) resize(size int, who func() Client, take func(more, room int) int) {
	p.size = size
	b, more := p.bounds, p.countable()-p.counted
	if more == 0 {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if more < 0 {
		p.release(-more)
		return
	}
	if p.counted == 0 {
		p.who = who()
	}
	p.count(take(more, b.usage.Room(b.limit, b.taken, more, p.who, b.all())))
}

// End says that there is no part any more.
func (p *Part) End() {
	if p.counted == 0 {
		return
	}
	p.bounds.mu.Lock()
	defer p.bounds.mu.Unlock()
	p.release(p.counted)
}

// countable is how much of a part counts.
func (p *Part) countable() int { return max(0, p.size-p.bounds.free) }

// count counts n more. The caller holds Bounds.mu.
func (p *Part) count(n int) {
	b := p.bounds
	b.usage.Add(p.who, n)
	b.taken += n
	p.counted += n
	if p.counted > 0 {
		if b.large == nil {
			b.large = make(map[*Part]struct{})
		}
		b.large[p] = struct{}{}
	}
}

// release counts n less. The caller holds Bounds.mu.
func (p *Part) release(n int) {
	b := p.bounds
	b.taken -= n
	if p.counted -= n; p.counted == 0 {
		delete(b.large, p)
	}
	b.usage.Release(b.limit, b.taken, n, p.who)
}
