package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/internal/retry"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/upstream"
)

const (
	// reachPause is the pause between attempts to reach an upstream for the first time.
	reachPause = time.Second
	// muteAfter is how long an upstream may owe an answer before it counts as one that does not
	// answer (SUR-2).
	muteAfter = 8 * time.Second
	// startGrace is how long a relay that begins waits for all required upstreams, if one of them is there (SUR-5).
	startGrace = 30 * time.Second
)

// health is what the relay says of itself to orchestrators and balancers, which decide whether clients should come.
type health struct {
	relay    *Relay
	complete atomic.Bool // readiness waits for no upstream any more
	unserved unserved
}

// reach tries to connect to an upstream until that succeeds once. Sessions begin
// with the first client that needs them, and clients may be kept away until the
// relay is ready: so somebody has to look before there is a session.
func (h *health) reach(ctx context.Context, p *plane) {
	p.reaching.begin(time.Now())
	for first := true; ; first = false {
		from, there := h.relay.hub.reachable(p)
		if !there {
			return
		}
		err := from.Reach(ctx)
		p.reaching.try(err, time.Now())
		if err == nil {
			p.reached.Store(true)
			h.tell() // the relay may be ready now, whether somebody asks or not
			return
		}
		if first && ctx.Err() == nil {
			h.relay.log.Warn("an upstream is unreachable", "upstream", p.name, "error", err)
		}
		if !retry.Sleep(ctx, reachPause) {
			return
		}
	}
}

// why says why the last attempt failed; "" if none did.
func (a *reaching) why() string {
	a.mu.Lock()
	err := a.err
	a.mu.Unlock()
	if err == nil || errors.Is(err, context.Canceled) {
		return ""
	}
	text := err.Error()
	if unanswered, ok := errors.AsType[*upstream.UnansweredError](err); ok {
		text = upstream.JoinCauses(unanswered.Causes)
	}
	return logs.Head(text, maxCause)
}

// availability is what an upstream can do for new clients.
type availability string

// The availabilities of an upstream.
const (
	reachedOnce availability = "reached"     // it can be reached, and owes no answer
	restored    availability = "restored"    // it was not reached yet; stores have content of it from an earlier run
	atPeers     availability = "at peers"    // it was not reached yet; a peer has content of it
	notReached  availability = "not reached" // not once since the relay began
	mute        availability = "mute"        // it can be reached, and does not answer
	unreachable availability = "unreachable" // it was reached, and cannot be now (ABS-2)
)

// upstreamReady is one upstream on /readyz.
type upstreamReady struct {
	Name     string       `json:"name"`
	State    availability `json:"state"`
	Required bool         `json:"required"`
	Since    time.Time    `json:"since,omitzero"` // of State, unless it is reached
	Cause    string       `json:"cause,omitempty"`
	Answered time.Time    `json:"last_answer,omitzero"`
	Held     []heldLoss   `json:"held,omitempty"` // losses that clients are not told yet (SUR-3)

	away bool // it cannot be reached; one that refuses clients can
}

// counts reports whether readiness need not wait for the upstream.
func (u *upstreamReady) counts() bool {
	return !u.Required || u.State != notReached && (u.State != mute || !u.Answered.IsZero())
}

// gives reports whether the control plane itself could serve new clients.
func (u *upstreamReady) gives() bool { return u.State == reachedOnce }

func (u *upstreamReady) text() string {
	t := fmt.Sprintf("%s (%s) since %s", u.Name, cmp.Or(u.Cause, string(u.State)), u.Since.UTC().Format(time.RFC3339))
	if !u.Required {
		t += ", not required"
	}
	return t
}

// readiness is /readyz.
type readiness struct {
	Ready     bool              `json:"ready"`
	Reason    string            `json:"reason"`
	Upstreams []upstreamReady   `json:"upstreams"`
	Frozen    []admin.OrderView `json:"held_by_operator,omitempty"`
	Scopes    []scopeReady      `json:"scopes,omitempty"` // that have something to serve, unless the admin port asks for tokens
}

// scopeReady is a scope that can be served from what is cached.
type scopeReady struct {
	Upstream  string `json:"upstream"`
	Scope     string `json:"scope"`
	Resources int64  `json:"resources"`
}

// maxScopesShown is how many scopes the text of /readyz has.
const maxScopesShown = 10

// text is the reason, and a line for each upstream that cannot be had now and for all that is held.
func (v *readiness) text() string {
	var b strings.Builder
	fmt.Fprintln(&b, v.Reason)
	for i := range v.Upstreams {
		u := &v.Upstreams[i]
		if v.Ready && u.State != reachedOnce { // else the reason says it
			fmt.Fprintf(&b, "%s: %s\n", u.State, u.text())
		}
		for _, h := range u.Held {
			fmt.Fprintf(&b, "held: %s removed %d resources of %s, clients keep them until %s\n", u.Name, h.Removed, h.TypeURL, h.Until.UTC().Format(time.RFC3339))
		}
	}
	for i := range v.Frozen {
		fmt.Fprintln(&b, heldText(&v.Frozen[i]))
	}
	for i, s := range v.Scopes {
		if i == maxScopesShown {
			fmt.Fprintf(&b, "and %d more scopes: output=json has them\n", len(v.Scopes)-i)
			break
		}
		fmt.Fprintf(&b, "can serve: %s, scope %q, %d resources\n", s.Upstream, s.Scope, s.Resources)
	}
	return b.String()
}

// scopes lists the scopes that can be served from what is cached, by upstream and name.
func (h *health) scopes() (all []scopeReady) {
	for _, s := range h.relay.hub.list() {
		n := int64(0)
		for _, t := range s.store.Stats() {
			n += t.Resources
		}
		if n > 0 {
			all = append(all, scopeReady{s.key.plane, s.key.scope, n})
		}
	}
	slices.SortFunc(all, func(a, b scopeReady) int {
		return cmp.Or(strings.Compare(a.Upstream, b.Upstream), strings.Compare(a.Scope, b.Scope))
	})
	return all
}

// availabilities says of each upstream what it can do for new clients, by name.
func (h *health) availabilities(now time.Time) []upstreamReady {
	after := h.relay.now.Load().config.Server.UnreachableAfter.Std()
	all := make([]upstreamReady, 0, 1)
	for name, p := range h.relay.hub.present() {
		c := p.contact()
		u := upstreamReady{Name: name, State: reachedOnce, Required: h.relay.hub.configOf(p).Required, Answered: c.Answered}
		switch since := p.outage().Since; {
		case !p.everReached():
			u.State, u.Since, u.Cause, u.away = notReached, p.reaching.sought(), p.reaching.why(), true
			switch {
			case h.relay.hub.snapshots.has(name):
				u.State = restored
			case h.relay.hub.help.has(name):
				u.State = atPeers
			}
		case h.relay.outages.away(p, after, now) != "":
			from, _ := h.relay.hub.reachable(p)
			u.State, u.Since = unreachable, cmp.Or(since, p.reaching.failing())
			u.away = !p.denies()
			u.Cause = logs.Head(upstream.JoinCauses(from.Causes()), maxCause)
		case !c.Unanswered.IsZero() && now.Sub(c.Unanswered) >= muteAfter:
			u.State, u.Since, u.Cause = mute, c.Unanswered, "it owes an answer"
		}
		all = append(all, u)
	}
	slices.SortFunc(all, func(a, b upstreamReady) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// ready says whether clients should come (SUR-5): the relay listens, is not draining, and could begin (completed). Once
// that was so, upstreams count no longer, whatever a reload adds: clients that are served must not be sent away for an
// upstream that they may not need. Only when clients that come end unserved, and no other is served, are they to go
// elsewhere for a while.
func (h *health) ready(now time.Time) *readiness {
	v := &readiness{Upstreams: h.availabilities(now)}
	for _, x := range h.relay.orders.frozen(now) {
		v.Frozen = append(v.Frozen, viewOrder(&x))
	}
	held := heldLosses(h.relay.hub.list())
	for i := range v.Upstreams {
		v.Upstreams[i].Held = held[v.Upstreams[i].Name]
	}
	unready := h.relay.ports.unready()
	switch {
	case h.relay.draining.Load():
		v.Reason = "draining"
	case !h.relay.serving.Load():
		v.Reason = "not listening yet"
	case unready != "":
		v.Reason = unready
	case !h.completed(v.Upstreams, now):
		v.Reason = "not reached yet: " + texts(v.Upstreams, func(u *upstreamReady) bool { return !u.counts() })
	default:
		v.Reason, v.Ready = "ready", true
		if since := h.unservedSince(v.Upstreams, now); !since.IsZero() {
			v.Reason = fmt.Sprintf("since %s: streams end unserved, no other is served, and no upstream can be reached that they need: ", since.UTC().Format(time.RFC3339)) +
				texts(v.Upstreams, func(u *upstreamReady) bool { return u.away })
			v.Ready = false
		}
	}
	return v
}

// unservedSince says since when the relay is not ready because it can serve no client that comes; zero: it is.
func (h *health) unservedSince(all []upstreamReady, now time.Time) time.Time {
	c := h.relay.now.Load().config
	if c.Ready.Unserved == config.UnservedOff {
		return time.Time{}
	}
	return h.unserved.judge(now, supplies{all, h.relay.cache.Resources(), func() bool {
		return h.relay.server.Serving(c.Server.UnreachableAfter.Std() + unservedLong)
	}})
}

// completed reports, and notes for good, that the relay may begin: no required upstream is waited for, or one is there and
// the others were waited for long enough.
func (h *health) completed(all []upstreamReady, now time.Time) bool {
	if h.complete.Load() {
		return true
	}
	waits := func(u upstreamReady) bool { return !u.counts() }
	begun := !h.relay.started.IsZero() && now.Sub(h.relay.started) >= startGrace
	if slices.ContainsFunc(all, waits) &&
		!(begun && slices.ContainsFunc(all, func(u upstreamReady) bool { return u.Required && u.counts() })) {
		return false
	}
	h.complete.Store(true)
	return true
}

// serves reports whether anything can be served to new clients: something is cached, here or by a
// peer, or an upstream can be reached.
func (h *health) serves(all []upstreamReady) bool {
	return h.relay.cache.Resources() > 0 || h.relay.hub.snapshots.any() ||
		slices.ContainsFunc(all, func(u upstreamReady) bool { return u.gives() || h.relay.hub.help.has(u.Name) })
}

// texts names some of the upstreams.
func texts(all []upstreamReady, which func(*upstreamReady) bool) string {
	var texts []string
	for i := range all {
		if which(&all[i]) {
			texts = append(texts, all[i].text())
		}
	}
	return strings.Join(texts, ", ")
}

// tell has the health service of gRPC say whether the relay can serve any client (ABS-2). A relay that has
// just begun cannot, before it has content or has reached an upstream.
func (h *health) tell() {
	now := time.Now()
	all := h.availabilities(now)
	h.completed(all, now)
	h.unservedSince(all, now)
	h.relay.server.SetServing(h.serves(all))
}

// serveReady answers in text, or in JSON if asked for output=json or by Accept.
func (a adminPort) serveReady(w http.ResponseWriter, req *http.Request) {
	v := a.relay.health.ready(time.Now())
	code := http.StatusOK
	if !v.Ready {
		code = http.StatusServiceUnavailable
	}
	if !a.anybody && a.relay.admin.tokens == nil && (!v.Ready || wantsJSON(req)) { // names of scopes are not for everybody
		v.Scopes = a.relay.health.scopes()
	}
	if wantsJSON(req) {
		admin.JSON(w, code, v)
		return
	}
	admin.Text(w, code, v.text())
}

// wantsJSON reports whether a page that is text otherwise is asked for as JSON.
func wantsJSON(req *http.Request) bool {
	if output := req.URL.Query().Get("output"); output != "" {
		return output == "json"
	}
	return strings.HasPrefix(req.Header.Get("Accept"), "application/json")
}
