// Package wake tells a goroutine that there is something to do, once however often it is told.
package wake

// New returns a channel with one slot. A value in it says that there is something to do.
func New() chan struct{} { return make(chan struct{}, 1) }

// Up puts a value into a channel with one slot, unless there is one. It does not block.
func Up(slot chan<- struct{}) {
	select {
	case slot <- struct{}{}:
	default: // there is one
	}
}
