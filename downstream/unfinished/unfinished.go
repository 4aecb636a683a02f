// Package unfinished bounds the memory of messages that clients have begun and not finished, over all
// clients (LIM-1). It counts bytes, and receives nothing.
//
// The first bytes of each message are free: a stream or a poll costs more than they do.
package unfinished

import (
	"iter"
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/crowd"
)

// Free is how many bytes of a message do not count. Few messages have more.
const Free = 64 << 10

// Bounds bounds messages. Its methods may be called from any goroutine.
type Bounds struct {
	mu    sync.Mutex // guards what follows
	limit crowd.Limit
	taken int                   // bytes
	crowd crowd.Crowd           // of them
	large map[*Message]struct{} // messages with bytes that count
}

// Set changes how many bytes there may be. Messages that are beyond it go on as far as they have come.
func (b *Bounds) Set(l crowd.Limit) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.limit = l
}

// Bytes is how many bytes there are that count.
func (b *Bounds) Bytes() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.taken
}

// all lists who has how many bytes. The caller holds mu.
func (b *Bounds) all() iter.Seq2[crowd.Who, int] {
	return func(yield func(crowd.Who, int) bool) {
		for m := range b.large {
			if !yield(m.who, m.counted) {
				return
			}
		}
	}
}

// Message is a message that a client has begun. One goroutine uses it.
type Message struct {
	bounds *Bounds
	bytes  int // in all

	// guarded by Bounds.mu
	counted int
	who     crowd.Who // once bytes count
}

// Begin begins a message. End must be called.
func (b *Bounds) Begin() *Message { return &Message{bounds: b} }

// Add reports whether a message may have n bytes more. who is asked who its client is.
func (m *Message) Add(n int, who func() crowd.Who) bool {
	before := max(0, m.bytes-Free)
	m.bytes += n
	more := max(0, m.bytes-Free) - before
	if more == 0 {
		return true
	}
	b := m.bounds
	b.mu.Lock()
	defer b.mu.Unlock()
	if m.counted == 0 {
		m.who = who()
	}
	if b.crowd.Admit(b.limit, b.taken, more, m.who, b.all()) != crowd.Admitted {
		return false
	}
	b.taken += more
	m.counted += more
	if b.large == nil {
		b.large = make(map[*Message]struct{})
	}
	b.large[m] = struct{}{}
	return true
}

// End says that a message is finished, or will not be.
func (m *Message) End() {
	b := m.bounds
	if m.bytes <= Free {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.large, m)
	b.taken -= m.counted
	b.crowd.Release(b.limit, b.taken, m.counted, m.who)
	m.counted = 0
}
