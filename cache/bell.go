package cache

// Bell tells the stream that has a place in a store that there may be something to collect. It
// rings once, and again when the stream has collected. Guarded by Store.mu against the
// session. The stream itself needs the read lock only.
type Bell struct {
	ring func()
	rung bool // and the stream has not collected since
}

// NewBell returns a bell. ring may be called from any goroutine, and while the store applies
// a response: it must neither block nor call the store.
func NewBell(ring func()) Bell { return Bell{ring: ring} }

// Arm records that the stream collects now: the next change rings.
func (b *Bell) Arm() { b.rung = false }

// TypeBell is the part of a bell that rings for one type. While a type waits for an
// acknowledgement it counts as rung: the stream collects when that has come, and until then
// changes cost a slow client nothing.
type TypeBell struct {
	place *Bell
	rung  bool
}

// NewTypeBell returns a part of a bell.
func NewTypeBell(place *Bell) TypeBell { return TypeBell{place: place} }

// Arm records that the stream has collected. Changes of the type do not ring if the stream
// collects it anyway.
func (b *TypeBell) Arm(anyway bool) { b.rung = anyway }

// Rung reports whether the bell rang for the type, and the stream has not collected since.
func (b *TypeBell) Rung() bool { return b.rung }

// Place is a client's place in a store.
type Place interface {
	// Bell rings when there may be something for the client.
	Bell() *Bell
	// Check reports what is inconsistent. The caller holds the store's lock for writing.
	Check() error
}
