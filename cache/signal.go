package cache

import "github.com/xdsrelay/xdsrelay/internal/wake"

// signal is a channel of one slot. A value in it says that there is something to do.
type signal chan struct{}

func newSignal() signal { return wake.New() }

// send puts a value into it, unless there is one.
func (s signal) send() {
	wake.Up(s)
}
