package wire

import (
	"bytes"
	"hash/maphash"
	"sync"
	"unsafe"
	"weak"
)

// Shared finds resources whose bytes are in memory already, and has them lie there: a control plane
// sends nearly the same to each of many scopes. It keeps no bytes alive. Its methods may be called from
// any goroutine. The zero Shared is ready for use.
type Shared struct {
	once  sync.Once
	seed  maphash.Seed
	parts [sharedParts]sharedPart
}

const (
	// sharedParts have a lock each, so that sessions do not wait for each other.
	sharedParts = 64
	// leastShared is how many bytes a resource has at least that is worth its place in a table.
	leastShared = 128
	// leastSwept is how large a part is at least before what is gone is looked for.
	leastSwept = 64
)

// sharedPart knows bytes by their hash. What is gone stays in the table until that has twice as many
// as after the last look.
type sharedPart struct {
	mu    sync.Mutex
	known map[uint64]sharedBytes
	look  int // how many there are when what is gone is looked for
}

// sharedBytes are the bytes of a resource, as long as one has them.
type sharedBytes struct {
	first weak.Pointer[byte]
	n     int
}

// get gives the bytes; nil if they are gone.
func (b sharedBytes) get() []byte {
	first := b.first.Value()
	if first == nil {
		return nil
	}
	return unsafe.Slice(first, b.n) //nolint:gosec // the resource's bytes have been so many
}

// Use gives a resource that lies in the bytes of another one, if there is one with the same bytes. Else
// it gives r, and offers its bytes to others.
func (s *Shared) Use(r *Resource) *Resource {
	if len(r.framed) < leastShared {
		return r
	}
	have := s.find(r.framed)
	if len(have) != len(r.framed) || &have[0] == &r.framed[0] || !bytes.Equal(have, r.framed) {
		return r
	}
	moved := *r
	moved.Name, moved.Version, moved.framed = r.lies(r.Name, have), r.lies(r.Version, have), have
	return &moved
}

// find gives bytes with the hash of own, and notes own if there are none.
func (s *Shared) find(own []byte) []byte {
	s.once.Do(func() { s.seed = maphash.MakeSeed() })
	hash := maphash.Bytes(s.seed, own)
	p := &s.parts[hash%sharedParts]
	p.mu.Lock()
	defer p.mu.Unlock()
	if have := p.known[hash].get(); have != nil {
		return have
	}
	p.sweep()
	p.known[hash] = sharedBytes{weak.Make(unsafe.SliceData(own)), len(own)} //nolint:gosec // a weak pointer to the resource's bytes
	return nil
}

// sweep makes room by forgetting what is gone. The caller holds mu.
func (p *sharedPart) sweep() {
	if len(p.known) < p.look {
		return
	}
	left := make(map[uint64]sharedBytes)
	for hash, b := range p.known {
		if b.first.Value() != nil {
			left[hash] = b
		}
	}
	p.known, p.look = left, max(leastSwept, 2*len(left))
}

// lies gives a part of the resource's bytes where it lies in others that are equal.
func (r *Resource) lies(part string, in []byte) string {
	if part == "" {
		return ""
	}
	from := uintptr(unsafe.Pointer(unsafe.StringData(part))) - uintptr(unsafe.Pointer(unsafe.SliceData(r.framed))) //nolint:gosec // part lies in framed
	return view(in[from:][:len(part)])
}
