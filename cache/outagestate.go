package cache

import (
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
	awaited atomic.Bool // peers were not asked yet for all that is wanted
	untold  atomic.Bool // other stores are to know of the outage before clients are told

	helped atomic.Bool   // the control plane is away, and peers are asked for what is wanted
	asked  atomic.Uint64 // the number of wants that they were asked for
	polls  atomic.Bool   // polls wait until they were
}

// want records that something is wanted that is not known. The caller holds Store.mu.
func (o *outageState) want() { o.wants++ }

// await reports whether clients are not to be told of the outage yet, and records that peers are to be
// asked before.
func (o *outageState) await() bool {
	if o.peers {
		o.awaited.Store(true)
	}
	return o.peers || o.untold.Load()
}

// pending reports whether there is an outage that clients are not told of yet.
func (o *outageState) pending() bool {
	return o.awaited.Load() || o.untold.Load()
}
