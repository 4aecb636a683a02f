package relay

import (
	"errors"
	"io"
	"os"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/audit"
	"github.com/xdsrelay/xdsrelay/relay/refusals"
)

// openAudit opens the audit of a configuration; nil if it has none.
func openAudit(cfg *config.Config, stderr io.Writer, m *metrics.Access) (*audit.Log, error) {
	path := cfg.Audit.To
	switch path {
	case "":
		return nil, nil //nolint:nilnil // because a nil audit.Log writes nothing
	case config.AuditStderr:
		path = ""
	}
	if stderr == nil {
		stderr = os.Stderr
	}
	return audit.New(path, stderr, cfg.Log.PerMinute, m.AuditLeftOut)
}

// refused writes who was turned away before it was served.
func (r *Relay) refused(x *refusals.Refusal) {
	r.trail.Note(&audit.Event{
		What: x.What, Address: x.Address, Identity: x.Identity, Node: x.Node, Name: x.Name, Decision: audit.Deny, Rule: x.Rule, Reason: x.Reason,
	})
}

// event is a line about the client of routes.
func (r *routes) event(what string, decision audit.Decision, rule string) *audit.Event {
	return &audit.Event{
		What: what, Identity: r.peer.Identity(), Account: r.peer.Account(), Address: r.peer.Addr, Listener: r.peer.Through(), Node: r.node.GetId(),
		Decision: decision, Rule: rule,
	}
}

// watched is an access whose decisions about what the client subscribes to are audited, or that has rules in shadow.
type watched struct {
	*access

	shadow *rules.AccessSubject // nil: all rules are enforced
}

// watch gives an access that is watched, where decisions are.
func (r *routes) watch() *watched {
	shadow := r.plan.rulesFor(r).Shadow()
	if shadow == nil && r.router.trail == nil {
		return nil
	}
	w := &watched{access: &access{routes: r}}
	if shadow != nil {
		w.shadow = shadow.Subject(r.node, *r.peer)
	}
	return w
}

// Subscribes implements downstream.Access.
func (w *watched) Subscribes(typeURL, spelling string) error {
	err := w.access.Subscribes(typeURL, spelling)
	if w.shadow == nil && err == nil && !w.all(typeURL) {
		return nil
	}
	logs.Apart(func() { w.tell(typeURL, spelling, err == nil) })
	return err
}

// Unwatched implements downstream.Watched.
func (w *watched) Unwatched() downstream.Access { return w.access }

// all reports whether a decision that allows a name of a type is audited too.
func (w *watched) all(typeURL string) bool {
	p := w.routes.plan
	return w.routes.router.trail != nil && (p.auditAll || p.rulesFor(w.routes).Secret(typeURL))
}

// tell writes what was decided, and what would have been.
func (w *watched) tell(typeURL, spelling string, allowed bool) {
	r := w.routes
	line := func(decision audit.Decision, d rules.AccessDecision) {
		e := r.event("access", decision, d.Rule)
		e.Type, e.Name, e.Reason = typeURL, spelling, d.Failed
		r.router.trail.Note(e)
	}
	if w.shadow != nil {
		if would, _ := w.shadow.Subscription(typeURL, spelling); would.Allowed != allowed {
			decision := audit.WouldDeny
			if would.Allowed {
				decision = audit.WouldAllow
			}
			r.router.unverified.metrics.Shadow(would.Rule)
			line(decision, would)
		}
		w.shadow.Forget(typeURL, spelling)
	}
	if allowed && !w.all(typeURL) {
		return
	}
	subject := w.subject()
	d, _ := subject.Subscription(typeURL, spelling)
	decision := audit.Allow
	if !allowed {
		subject.Forget(typeURL, spelling)
		decision = audit.Deny
	}
	line(decision, d)
}

// verifyInShadow writes that a rule that is not enforced would have refused the client's node.
func (r *routes) verifyInShadow(shadow *rules.Verifier) {
	var err error
	logs.Apart(func() { err = shadow.Verify(r.node, *r.peer) })
	if e, ok := errors.AsType[*rules.UnverifiedError](err); ok {
		r.router.unverified.metrics.Shadow(e.Rule)
		line := r.event("verify", audit.WouldDeny, e.Rule)
		line.Reason = e.Reason()
		r.router.trail.Note(line)
	}
}
