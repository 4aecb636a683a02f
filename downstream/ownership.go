package downstream

import "sync/atomic"

// ownership decides which goroutine may use a stream's state: the handler, which reads and
// carries out requests, a sender, or a question of an operator (inspect). It is a slot and no mutex, since the owner may wait for the
// client to read. Only the handler waits for the slot, and give hands it over: a sender with more
// to send would mostly take the slot again before the handler has awoken.
type ownership struct {
	state   atomic.Uint32
	retires atomic.Bool   // the owner ends the stream as soon as it can; see Server.Retire
	handed  chan struct{} // made when the handler waits for the first time
}

const (
	ownerNone uint32 = iota
	ownerOne
	ownerAwaited // there is an owner, and the handler waits
)

// try takes the stream if it has no owner.
func (o *ownership) try() bool { return o.state.CompareAndSwap(ownerNone, ownerOne) }

// take waits until the stream is the handler's.
func (o *ownership) take() {
	if o.try() {
		return
	}
	if o.handed == nil {
		o.handed = make(chan struct{}, 1)
	}
	for !o.try() {
		if o.state.CompareAndSwap(ownerOne, ownerAwaited) {
			<-o.handed // the state stayed ownerOne
			return
		}
	}
}

// give ends the ownership.
func (o *ownership) give() {
	if o.state.CompareAndSwap(ownerOne, ownerNone) {
		return
	}
	o.state.Store(ownerOne)
	o.handed <- struct{}{}
}

// bell notes that a stream may have something to send.
type bell struct {
	rung   atomic.Bool // cleared before the stream looks
	queued atomic.Bool // the senders' queue has the stream
}
