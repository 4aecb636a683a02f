package cache

import (
	"maps"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// outageState is what a store knows of an outage of its control plane, and of peers that may help.
type outageState struct {
	// Pointer is to the error of names without any answer, nil while the control plane can be
	// reached. It changes under Store.mu.
	atomic.Pointer[wire.ResourceError]

	peers   bool        // immutable: peers are asked before clients are told (Source.Peers)
	wants   uint64      // how often something was wanted that is not known; guarded by Store.mu
	untold  atomic.Bool // other stores are to know of the outage before clients are told
	unasked atomic.Bool // peers were not asked yet for what was wanted when the outage began
	awaited atomic.Bool // peers were not asked yet for all that is wanted

	// guarded by Store.mu
	began uint64       // wants when the outage began
	late  map[any]late // names and collections that were wanted during it, and peers were not asked for yet

	helped atomic.Bool   // the control plane is away, and peers are asked for what is wanted
	asked  atomic.Uint64 // the number of wants that they were asked for
	polls  atomic.Bool   // polls wait until they were
}

// late is a name or a collection that was wanted during an outage.
type late struct {
	wants uint64 // by then
	tell  func() // tells the clients of the outage
}

// want records that something is wanted that is not known. The caller holds Store.mu.
func (o *outageState) want() { o.wants++ }

// begin has all clients wait. The caller holds Store.mu.
func (o *outageState) begin(err *wire.ResourceError) {
	o.began = o.wants
	o.untold.Store(true)
	o.unasked.Store(o.peers)
	o.awaited.Store(o.peers)
	o.Store(err)
}

// end ends the outage for all clients, and returns its error. The caller holds Store.mu.
func (o *outageState) end() *wire.ResourceError {
	err := o.Swap(nil)
	o.untold.Store(false)
	o.unasked.Store(false)
	o.awaited.Store(false)
	o.late = nil
	return err
}

// await reports whether clients are not to be told yet that a name or a collection is out of reach, and has peers
// asked before, if there are any. Those that want it too put nothing off. The caller holds Store.mu.
func (o *outageState) await(wanted any, tell func()) bool {
	if !o.peers {
		return o.untold.Load()
	}
	if _, waits := o.late[wanted]; !waits {
		if o.late == nil {
			o.late = make(map[any]late)
		}
		o.late[wanted] = late{o.wants, tell}
		o.awaited.Store(true)
	}
	return true
}

// waits reports whether clients are not told yet that a name or a collection is out of reach. The caller holds the lock.
func (o *outageState) waits(wanted any) bool {
	_, late := o.late[wanted]
	return late || o.untold.Load() || o.unasked.Load()
}

// pending reports whether there is an outage that some clients are not told of yet.
func (o *outageState) pending() bool { return o.awaited.Load() || o.untold.Load() }

// askedFor forgets that clients wait for what peers were asked for, when wants was a number. The caller
// holds Store.mu.
func (o *outageState) askedFor(wants uint64) {
	maps.DeleteFunc(o.late, func(_ any, l late) bool { return l.wants <= wants })
	o.unasked.Store(false)
	o.awaited.Store(len(o.late) > 0)
}
