package upstream

import (
	"slices"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/backoff"
)

// failback is where a session's attempts go, and its way back to a better endpoint
// (LOC-6). It belongs to the session's owner.
type failback struct {
	// Immutable after newFailback.
	endpoints []string
	interval  time.Duration
	health    *health
	report    *report

	endpoint int       // where the next attempt goes
	at       time.Time // when to look next; zero: not waiting
	probing  bool
	wg       sync.WaitGroup // the one probe

	// An endpoint that takes connections but no streams would have the session
	// leave a good stream for it again and again: each move that did not come to
	// anything doubles the wait for the next one, up to sixteen times.
	moves  int
	target int // of the last move
}

const maxDoublings = 4

func newFailback(u *Upstream, r *report) *failback {
	return &failback{endpoints: u.cfg.Endpoints, interval: u.cfg.FailbackInterval, health: u.health, report: r}
}

// arrived says that an attempt at endpoint came to something.
func (f *failback) arrived(endpoint int) {
	if endpoint == f.target {
		f.moves = 0
	}
}

// begin goes to the endpoint that is best for a session of which nothing is under way.
func (f *failback) begin() { f.moveTo(f.health.best(f.interval)) }

// moveTo makes endpoint the one for new attempts.
func (f *failback) moveTo(endpoint int) {
	if endpoint == f.endpoint {
		return
	}
	from, to := f.endpoints[f.endpoint], f.endpoints[endpoint]
	f.endpoint = endpoint
	f.report.note(func(st *Status) { st.Endpoint = to; st.EndpointChanges++ })
	f.report.obs.EndpointChanged(from, to)
	f.report.log.Info("turning to another endpoint", "from", from, "to", to)
	f.schedule()
}

// moveOn gives the other endpoints their turn after a line's attempt at one failed.
// failed has those where the line's attempts did; with no other left it is cleared, and
// all begins with the best again. It says whether to try at once, which only an endpoint
// that could not be reached is a reason for.
func (f *failback) moveOn(endpoint int, failed []bool, unreachable bool) (atOnce bool) {
	failed[endpoint] = true
	if f.endpoint == endpoint { // else another line has moved on already
		f.moveTo(max(0, slices.Index(failed, false)))
	}
	if failed[f.endpoint] {
		clear(failed)
		return false
	}
	return unreachable
}

// schedule sets when to look for a better endpoint, if there is one.
func (f *failback) schedule() {
	switch {
	case f.endpoint == 0:
		f.at = time.Time{}
	case f.at.IsZero() && !f.probing:
		f.at = time.Now().Add(backoff.Spread(f.interval << min(f.moves, maxDoublings)))
	}
}

// knownBad says that a session of the same upstream has just tried an endpoint in vain.
// Then this one does not, so that a thousand scopes do not probe a thousand times as
// often.
func (f *failback) knownBad(endpoint int) bool { return f.health.failedWithin(endpoint, f.interval/2) }

// found ends a probe. It goes to the endpoint that was found if that is better, and says
// whether it is; if not there is another probe later.
func (f *failback) found(endpoint int) bool {
	f.probing = false
	if endpoint >= f.endpoint {
		f.schedule()
		return false
	}
	f.moves++
	f.target = endpoint
	f.moveTo(endpoint)
	return true
}
