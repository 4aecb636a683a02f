package logs

import "runtime/debug"

// moved is a panic that came from another goroutine.
type moved struct {
	value any
	place string
	stack []byte
}

// Apart calls f on a goroutine of its own, and returns when f has. It is for what takes much stack, on
// behalf of somebody who lives long: a stack that has once grown hardly ever shrinks again. A panic of
// f is one of the caller's, with the place and the stack of f.
func Apart(f func()) {
	done := make(chan *moved, 1)
	go func() { done <- caught(f) }()
	if m := <-done; m != nil {
		panic(m)
	}
}

// caught calls f, and gives its panic; nil: there was none.
func caught(f func()) (m *moved) {
	defer func() {
		if v := recover(); v != nil {
			m = &moved{v, place(), debug.Stack()}
		}
	}()
	f()
	return nil
}
