package cache

import "github.com/xdsrelay/xdsrelay/internal/notify"

// signal is a channel of one slot. A value in it says that there is something to do.
type signal chan struct{}

func newSignal() signal { return notify.New() }

// send puts a value into it, unless there is one.
func (s signal) send() {
	notify.Signal(s)
}
