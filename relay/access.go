package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// access is what one client may get by the access rules of a plan (ACC-2). It implements
// downstream.Access. There is one for each stream: of types that are not decided by name it keeps
// only the decision.
type access struct {
	routes  *routes
	allowed []string // types of which the client gets every name
	denied  []string // types of which it gets none
	named   *byName  // nil: no type was decided by name so far
}

// byName is what a client needs whose names are judged.
type byName struct {
	subject *rules.AccessSubject
	types   []string // those that are decided by name
	// The name that was judged last: one name is judged several times on its way into a response.
	typeURL, name string
	allows        bool
}

// Access implements downstream.Routes.
func (r *routes) Access() downstream.Access {
	if r.access == nil {
		r.access = r.plan.accessOf(r)
		if r.router.judge != nil {
			r.access = r.router.judge(r.access)
		}
	}
	return r.access
}

// accessOf gives what the client of routes may get. Without rules all clients of a listener may get the
// same.
func (p *plan) accessOf(r *routes) downstream.Access {
	if w := r.watch(); w != nil {
		return w
	}
	if list := p.rulesFor(r); list.Empty() {
		return unruled{list}
	}
	return &access{routes: r}
}

// rulesFor gives the rules of the listener that a client came through.
func (p *plan) rulesFor(r *routes) *rules.Access { return p.access.Of(r.peer.Through()).Rules }

// subject gives the client before its rules.
func (a *access) subject() *rules.AccessSubject {
	if a.named != nil {
		return a.named.subject
	}
	r := a.routes
	return r.plan.rulesFor(r).Subject(r.node, *r.peer)
}

// decided reports whether the rules decide alike for all names of a type, and what they decide.
func (a *access) decided(typeURL string) (allowed, all bool) {
	switch {
	case slices.Contains(a.allowed, typeURL):
		return true, true
	case slices.Contains(a.denied, typeURL):
		return false, true
	case a.named != nil && slices.Contains(a.named.types, typeURL):
		return false, false
	}
	var d rules.AccessDecision
	var open bool
	subject := a.subject()
	logs.Apart(func() { d, open = subject.Type(typeURL) }) // of the stack of a stream at rest
	if !open {
		return a.note(typeURL, d.Allowed), true
	}
	if a.named == nil {
		a.named = &byName{subject: subject}
	}
	a.named.types = append(a.named.types, typeURL)
	return false, false
}

// note keeps what was decided of a type.
func (a *access) note(typeURL string, allowed bool) bool {
	if allowed {
		a.allowed = append(a.allowed, typeURL)
	} else {
		a.denied = append(a.denied, typeURL)
	}
	return allowed
}

// ByName implements delivery.Judge.
func (a *access) ByName(typeURL string) bool {
	allowed, _ := a.decided(typeURL)
	return !allowed
}

// Allows implements delivery.Judge. All uses are judged alike.
func (a *access) Allows(_ downstream.Use, typeURL, name string) bool {
	if allowed, all := a.decided(typeURL); all {
		return allowed
	}
	n := a.named
	if n.name != name || n.typeURL != typeURL || name == "" {
		d, _ := n.subject.Subscription(typeURL, name)
		n.typeURL, n.name, n.allows = typeURL, strings.Clone(name), d.Allowed
	}
	return n.allows
}

// Subscribes implements downstream.Access.
func (a *access) Subscribes(typeURL, spelling string) error {
	if allowed, all := a.decided(typeURL); all && allowed {
		return nil
	}
	var d rules.AccessDecision
	logs.Apart(func() {
		subject := a.subject()
		if d, _ = subject.Subscription(typeURL, spelling); !d.Allowed { // it does not subscribe
			subject.Forget(typeURL, spelling)
		}
	})
	return denial(d)
}

// Forget implements downstream.Access.
func (a *access) Forget(typeURL, spelling string) {
	if a.named != nil {
		a.named.subject.Forget(typeURL, spelling)
	}
}

// Differs implements downstream.Access.
func (a *access) Differs(next downstream.Access, typeURL string) (differs bool) {
	logs.Apart(func() { differs = a.compare(next, typeURL) })
	return differs
}

// compare is Differs with the caller's stack.
func (a *access) compare(next downstream.Access, typeURL string) bool {
	switch next := next.(type) {
	case *watched:
		return a.compare(next.access, typeURL)
	case *access:
		return a.subject().Differs(next.subject(), typeURL)
	case unruled:
		d, byName := a.subject().Type(typeURL)
		return byName || d.Allowed != next.rules.Otherwise(typeURL)
	}
	return true
}

var errNotAllowed = errors.New("no access rule allows this client the name")

// denial is what a client is told that may not have a name; nil for one that may.
func denial(d rules.AccessDecision) error {
	switch {
	case d.Allowed:
		return nil
	case d.Rule == rules.Otherwise:
		return errNotAllowed
	}
	return fmt.Errorf("the access rule %q denies this client the name", d.Rule)
}

// unruled is what all clients may get where there are no access rules: it does not look at names.
type unruled struct{ rules *rules.Access }

// ByName implements delivery.Judge.
func (u unruled) ByName(typeURL string) bool { return !u.rules.Otherwise(typeURL) }

// Allows implements delivery.Judge.
func (u unruled) Allows(_ downstream.Use, typeURL, _ string) bool { return u.rules.Otherwise(typeURL) }

// Subscribes implements downstream.Access.
func (u unruled) Subscribes(typeURL, _ string) error {
	return denial(rules.AccessDecision{Allowed: u.rules.Otherwise(typeURL), Rule: rules.Otherwise})
}

// Forget implements downstream.Access.
func (unruled) Forget(string, string) {}

// Differs implements downstream.Access.
func (u unruled) Differs(next downstream.Access, typeURL string) bool {
	if next, ok := next.(unruled); ok {
		return u.rules.Otherwise(typeURL) != next.rules.Otherwise(typeURL)
	}
	return next == nil || next.Differs(u, typeURL)
}
