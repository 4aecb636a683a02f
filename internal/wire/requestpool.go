package wire

import (
	"math/bits"
	"sync"
)

const (
	// Requests of one HTTP/2 frame are read where they are; larger ones are put together in
	// memory of the next power of two, up to what is worth keeping.
	minPooled = 14
	maxPooled = 20
)

// requestPool is a mem.BufferPool for requests of more than one frame, which it gives
// back as they are: grpc's own has none between 32 KiB and 1 MiB, and clears what it
// gives, all of it.
type requestPool struct {
	bySize [maxPooled - minPooled + 1]sync.Pool
}

// pool gives the one for a size of up to a power of two; nil for what is larger.
func (p *requestPool) pool(size int) (pool *sync.Pool, capacity int) {
	exponent := max(minPooled, bits.Len(uint(max(size, 1)-1)))
	if exponent > maxPooled {
		return nil, size
	}
	return &p.bySize[exponent-minPooled], 1 << exponent
}

// Get implements mem.BufferPool. The caller writes all of it.
func (p *requestPool) Get(size int) *[]byte {
	pool, capacity := p.pool(size)
	if pool != nil {
		if b, ok := pool.Get().(*[]byte); ok {
			*b = (*b)[:size]
			return b
		}
	}
	b := make([]byte, size, capacity)
	return &b
}

// Put implements mem.BufferPool.
func (p *requestPool) Put(b *[]byte) {
	if pool, capacity := p.pool(cap(*b)); pool != nil && capacity == cap(*b) {
		pool.Put(b)
	}
}
