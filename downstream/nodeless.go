package downstream

import (
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

const (
	// nodelessWait is how long a node is waited for where limits.first_request sets no limit.
	nodelessWait = 10 * time.Second
	// maxNodeless and maxNodelessBytes bound the requests of a stream that wait for a node. With a further one none
	// waits any more.
	maxNodeless      = 16
	maxNodelessBytes = 64 << 10
)

// nodeless are the first requests of a stream, if these have no node and the relay needs the node to choose resources:
// they wait for a request that has one, in order (STR-1). Envoy before 1.16 sends its first request without a node if that
// is for runtime layers. Requests without a node that come for too long are carried out as those of an empty node.
type nodeless struct {
	timer *time.Timer // immutable

	mu       sync.Mutex // guards what follows, and the stream's state until over is set
	requests []discoveryRequest
	bytes    int // what these take
	over     bool
}

// waits reports whether a request waits for a node. If not, all that waited have been carried out, for the node of this
// one. The handler calls it before it carries out a request.
func (st *stream) waits(r *discoveryRequest) (bool, error) {
	w := st.nodeless
	if w == nil {
		if st.subscriber != nil || r.hasNode() || !st.shared.config.Router.NodeMatters(&st.standing.peer) {
			return false, nil
		}
		w = new(nodeless)
		st.nodeless = w
		st.keep()
		most := st.shared.limits.Load().PerClient.FirstRequest
		if most == 0 {
			most = nodelessWait
		}
		w.timer = time.AfterFunc(time.Until(st.standing.since.Add(most)), func() { _ = st.shared.safety.panics.Do(logs.PartClient, func() { st.waited(w) }) })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.bytes += r.bytes(); !w.over && !r.hasNode() && len(w.requests) < maxNodeless && w.bytes <= maxNodelessBytes {
		w.requests = append(w.requests, *r)
		return true, nil
	}
	w.timer.Stop()
	st.nodeless = nil
	err := st.carryAll(w, r)
	if err != nil {
		r.release()
	}
	return false, err
}

// waited carries out the requests that have waited for too long.
func (st *stream) waited(w *nodeless) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	if err := st.carryAll(w, nil); err != nil {
		_ = st.link.close(err) // the handler returns it
	}
}

// carryAll carries out the requests that waited. of has the node; nil: it is empty. The caller holds the lock.
func (st *stream) carryAll(w *nodeless, of *discoveryRequest) (err error) {
	for i := range w.requests {
		r := &w.requests[i]
		if err != nil {
			r.release()
			continue
		}
		if of != nil {
			r.nodeFrom = of.wire
		}
		_, err = st.carry(r)
	}
	w.requests, w.over = nil, true
	return err
}

// drop ends the wait with the stream.
func (w *nodeless) drop() {
	if w == nil {
		return
	}
	w.timer.Stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := range w.requests {
		w.requests[i].release()
	}
	w.requests, w.over = nil, true
}
