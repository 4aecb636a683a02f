package cache

import (
	"sync"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// encoded is what a collection keeps encoded for its clients.
type encoded struct {
	lists  lists
	chunks chunks // for clients of the incremental form that begin
}

// drop forgets it, as the collection changes.
func (e *encoded) drop() {
	e.lists.drop()
	e.chunks.drop()
}

// lists are all members of a collection as whole lists, bare and wrapped. The first client
// that needs one has it encoded for all. That is under the store's read lock, so the lists
// have a lock of their own, the last one to be taken. A change holds the store's lock for
// writing, and needs no other.
type lists struct {
	mu            sync.Mutex
	bare, wrapped *wire.Body

	// The sum of the members' versions, the number of changes at which it was begun, and the
	// member that is not in it yet, nil if all are.
	versions, summedAt uint64
	summed             *Entry
}

// drop forgets the lists, as the collection changes.
func (l *lists) drop() { l.bare, l.wrapped = nil, nil }

// size is the number of lists.
func (l *lists) size() (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, body := range []*wire.Body{l.bare, l.wrapped} {
		if body != nil {
			n++
		}
	}
	return n
}

// Chunk is some members of a collection that follow each other, encoded once for all clients
// that begin to follow it.
type Chunk struct {
	Body *wire.Body
	Last *Entry
}

// chunks are those of a collection, by their first members. They are built under the store's read
// lock, so they have a lock of their own, the last one to be taken. A change holds the store's lock
// for writing, needs no other, and drops them: chunks always hold what the members hold now.
type chunks struct {
	mu      sync.Mutex
	by      map[*Entry]Chunk
	members int // in all of them
}

func (k *chunks) drop() { k.by, k.members = nil, 0 }

// size is the number of members in all chunks.
func (k *chunks) size() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.members
}

// keep keeps a chunk that begins with e. Streams that came to e in responses with different
// room may have different ones. There are never many times the collection's members.
func (k *chunks) keep(e *Entry, made Chunk, limit int) {
	if k.members > limit {
		k.drop()
	}
	if k.by == nil {
		k.by = make(map[*Entry]Chunk)
	}
	if old, ok := k.by[e]; ok {
		k.members -= old.Body.Resources()
	}
	k.by[e] = made
	k.members += made.Body.Resources()
}
