package upstream

import (
	"sync"
	"time"
)

// report is what a session tells of itself: to its observer, and to whoever asks for
// its Status.
type report struct {
	obs   Observer
	state State // the one told last; belongs to the session's owner

	statusMu sync.Mutex
	status   Status // guarded by statusMu
}

func newReport(upstream, endpoint string, cfg SessionConfig) *report {
	r := &report{obs: cfg.Observer, state: StateIdle, status: Status{
		Upstream: upstream, Scope: cfg.Scope, State: StateIdle, Since: time.Now(), Endpoint: endpoint,
	}}
	if r.obs == nil {
		r.obs = NopObserver{}
	}
	return r
}

// Status may be called from any goroutine.
func (r *report) Status() Status {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	return r.status
}

// note changes the status.
func (r *report) note(f func(*Status)) {
	r.statusMu.Lock()
	defer r.statusMu.Unlock()
	f(&r.status)
}

// turn tells of the state if it is another one.
func (r *report) turn(state State) {
	if state == r.state {
		return
	}
	r.state = state
	r.note(func(st *Status) { st.State, st.Since = state, time.Now() })
	r.obs.StateChanged(state)
}
