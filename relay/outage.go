package relay

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/notify"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/upstream"
)

const (
	// outageLook is how often somebody looks which upstreams cannot be reached (ABS-2).
	outageLook = time.Second
	// deniedFresh is how long it counts that a server refused a scope's stream. At least one look
	// sees each attempt that fails. A session that begins later makes an attempt of its own.
	deniedFresh = 2 * outageLook
	// maxCause bounds what clients are told of why an upstream cannot be reached, in bytes.
	maxCause = 512
)

// reaching is what is known of the relay's own attempts to reach an upstream: before the
// first session began, and while clients are sent away, of whom none waits for a stream.
type reaching struct {
	trying atomic.Bool
	cause  atomic.Pointer[string] // why it cannot be reached, as clients are told; nil: it can be

	mu      sync.Mutex
	began   time.Time // when the first one began; zero: none has
	since   time.Time // when the first one failed since one succeeded; zero: none did
	tried   time.Time // when the last one did
	reached time.Time // when the last one succeeded; zero: none did
	err     error     // of tried
}

// begin notes that attempts begin.
func (a *reaching) begin(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.began.IsZero() {
		a.began = now
	}
}

// sought is since when the upstream is tried to be reached.
func (a *reaching) sought() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.began
}

// failing is since when attempts fail; zero: they do not.
func (a *reaching) failing() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.since
}

// tells notes why the upstream cannot be reached; "": it can be.
func (a *reaching) tells(cause string) {
	if cause == "" {
		a.cause.Store(nil)
	} else {
		a.cause.Store(&cause)
	}
}

// try notes an attempt.
func (a *reaching) try(err error, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.err = err; err == nil {
		a.since, a.reached = time.Time{}, now
		return
	}
	a.tried = now
	if a.since.IsZero() {
		a.since = now
	}
}

// unreachable says why a plane cannot be reached, and has not been for so long; "" if it can
// be, or nobody knows. why gives the causes of its endpoints.
func (p *plane) unreachable(after time.Duration, now time.Time, why func() []upstream.Cause) string {
	if p.outages == nil || after <= 0 {
		return ""
	}
	o, a := p.outages.Now(), &p.reaching
	a.mu.Lock()
	defer a.mu.Unlock()
	since, tried, err := o.Since, o.Tried, error(o.Err)
	if since.IsZero() {
		if !o.Answered.IsZero() {
			return ""
		}
		since, tried, err = a.since, a.tried, a.err
	}
	switch {
	case since.IsZero(), now.Sub(since) < after, a.reached.After(tried):
		return ""
	case now.Sub(notify.Later(tried, a.tried)) > upstream.OutageFresh:
		return ""
	}
	return causeOf(p.name, err, why())
}

// denying reports whether the server let a stream not in so lately that a session may have to
// be told.
func (p *plane) denying(now time.Time) bool {
	return p.outages != nil && now.Sub(p.outages.Denied()) <= deniedFresh
}

// denies reports whether a plane counts as one that cannot be reached because its server lets
// nobody in. That is about the scopes that asked, and no word for others (ACC-6).
func (p *plane) denies() bool {
	o := p.outage()
	return o.Err != nil && o.Err.Reason == upstream.ReasonDenied
}

// denied says why a session's clients are not served that its server does not let in, though
// others may be; "" if it does, or nobody knows (ABS-2).
func (s *session) denied(after time.Duration, now time.Time) string {
	if after <= 0 {
		return ""
	}
	st := s.client.Status()
	err := st.LastError
	if err == nil || err.Reason != upstream.ReasonDenied || now.Sub(err.At) > deniedFresh ||
		st.Streams > 0 { // of other types, where each has its own
		return ""
	}
	return told(s.key.plane, err.Cause().Unplaced().String())
}

// causeOf is what clients of all scopes are told: the upstream's name, and what its endpoints
// failed with, or else what it itself did. The log and the admin port have the addresses.
func causeOf(name string, err error, causes []upstream.Cause) string {
	text := "no server answers"
	if lost, ok := errors.AsType[*upstream.ConnectionError](err); ok {
		text = lost.Cause().Public().String()
	}
	if unanswered, ok := errors.AsType[*upstream.UnansweredError](err); ok && len(causes) == 0 {
		causes = slices.Clone(unanswered.Causes)
	}
	if len(causes) > 0 {
		for i := range causes {
			causes[i] = causes[i].Public()
		}
		text = upstream.JoinCauses(causes)
	}
	return told(name, text)
}

func told(name, text string) string {
	return logs.Head(fmt.Sprintf("upstream %q is unreachable: %s", name, text), maxCause)
}

// outageWatch looks which upstreams cannot be reached.
type outageWatch struct{ relay *Relay }

// run has clients told of upstreams that cannot be reached (ABS-2), until ctx ends.
func (o outageWatch) run(ctx context.Context) {
	retry.Every(ctx, outageLook, func(now time.Time) { o.tell(ctx, now) })
}

// tell has the stores of all planes, and the relay's health service, know which planes cannot be reached.
// Clients are told when all stores know. Those of a store whose snapshot is read still wait for it: it may
// serve them.
func (o outageWatch) tell(ctx context.Context, now time.Time) {
	after := o.relay.now.Load().config.Server.UnreachableAfter.Std()
	present, retired := o.relay.hub.census()
	causes, denying := make(map[*plane]string), make(map[*plane]bool)
	for _, p := range slices.AppendSeq(retired, maps.Values(present)) {
		if causes[p] = ""; !p.denies() {
			causes[p] = o.away(p, after, now)
		}
		p.reaching.tells(causes[p])
	}
	for p := range causes {
		denying[p] = p.denying(now)
	}
	var due []*session
	o.each(o.relay.hub.list(), func(s *session) { // once a second: there may be very many
		p := s.key.of
		if p == nil {
			return
		}
		cause := causes[p]
		if cause == "" && denying[p] {
			cause = s.denied(after, now)
		}
		if s.store.Session().SetOutage(cause) && s.disk.ready.Load() {
			due = append(due, s)
		}
	})
	o.each(due, func(s *session) { s.store.Session().TellOutage() })
	for p, cause := range causes {
		if cause != "" && !p.reaching.trying.Swap(true) {
			o.relay.hub.running.Go(o.relay.panics.Func(logs.PartBackground, func() { o.retry(ctx, p) }))
		}
	}
	o.relay.health.tell()
}

// each calls f for each session. A panic is kept to the store of its session: clients of others are told all
// the same, and its own by the next look (SUR-6).
func (o outageWatch) each(all []*session, f func(*session)) {
	for at := 0; at < len(all); at++ {
		if o.relay.panics.Do(logs.PartStore, func() {
			for ; at < len(all); at++ {
				f(all[at])
			}
		}) != nil {
			o.relay.repairs.suspects.add(all[at].store)
		}
	}
}

// away says why a plane cannot be reached, and has not been for so long; "" if it can be.
func (o outageWatch) away(p *plane, after time.Duration, now time.Time) string {
	from, _ := o.relay.hub.reachable(p)
	return p.unreachable(after, now, from.Causes)
}

// retry tries to reach an upstream once, after a while. Clients that are sent away wait for
// no stream, and without one nobody would find out that the upstream is back.
func (o outageWatch) retry(ctx context.Context, p *plane) {
	defer p.reaching.trying.Store(false)
	if !retry.Sleep(ctx, outageLook+rand.N(outageLook)) { //nolint:gosec // spreading, not secrecy
		return
	}
	if from, there := o.relay.hub.reachable(p); there {
		p.reaching.try(from.Reach(ctx), time.Now())
	}
}
