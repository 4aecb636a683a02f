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
	began uint64                 // wants when the outage began
	names map[*Entry]lateName    // wanted during it, and peers were not asked yet
	colls map[*Collection]uint64 // likewise: wants by then

	helped atomic.Bool   // the control plane is away, and peers are asked for what is wanted
	asked  atomic.Uint64 // the number of wants that they were asked for
	polls  atomic.Bool   // polls wait until they were
}

// lateName is a name that was wanted during an outage.
type lateName struct {
	table *Table
	wants uint64 // by then
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

// end forgets who waits for peers, and returns the error of the outage. The caller holds Store.mu.
func (o *outageState) end() *wire.ResourceError {
	err := o.Swap(nil)
	o.untold.Store(false)
	o.unasked.Store(false)
	o.awaited.Store(false)
	o.names, o.colls = nil, nil
	return err
}

// await reports whether clients are not to be told yet that a name is out of reach, and has peers asked
// before, if there are any. The caller holds Store.mu.
func (o *outageState) await(t *Table, e *Entry) bool {
	if o.peers {
		if o.names == nil {
			o.names = make(map[*Entry]lateName)
		}
		if _, waits := o.names[e]; !waits { // others that want it now too put nothing off
			o.names[e] = lateName{t, o.wants}
		}
		o.awaited.Store(true)
	}
	return o.peers || o.untold.Load()
}

// awaitAll has peers asked for a collection that nobody followed before. Else they were asked already,
// or will be: those who wait for that would wait for ever if others never ceased to come. The caller holds
// Store.mu.
func (o *outageState) awaitAll(c *Collection) {
	if o.Load() == nil || !o.peers || len(c.followers) > 1 {
		return
	}
	if o.colls == nil {
		o.colls = make(map[*Collection]uint64)
	}
	o.colls[c] = o.wants
	o.awaited.Store(true)
}

// pending reports whether there is an outage that some clients are not told of yet.
func (o *outageState) pending() bool { return o.awaited.Load() || o.untold.Load() }

// silent reports whether no client is told yet.
func (o *outageState) silent() bool { return o.untold.Load() || o.unasked.Load() }

// AwaitsName reports whether those who want a name are not told of an outage yet. The caller holds the lock.
func (s *Store) AwaitsName(e *Entry) bool {
	_, waits := s.outage.names[e]
	return waits || s.outage.silent()
}

// AwaitsCollection reports so of those who follow a collection.
func (s *Store) AwaitsCollection(c *Collection) bool {
	_, waits := s.outage.colls[c]
	return waits || s.outage.silent()
}

// askedFor forgets that clients wait for what peers were asked for, when wants was a number. The caller
// holds Store.mu.
func (o *outageState) askedFor(wants uint64) {
	maps.DeleteFunc(o.names, func(_ *Entry, l lateName) bool { return l.wants <= wants })
	maps.DeleteFunc(o.colls, func(_ *Collection, n uint64) bool { return n <= wants })
	o.unasked.Store(false)
	o.awaited.Store(len(o.names)+len(o.colls) > 0)
}
