package relay

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// maxRefused is which part of the connected clients a reload may refuse that no operator agreed to.
const maxRefused = 0.1

// maxNamed bounds the clients that an error names.
const maxNamed = 5

// RefusesError says that a configuration was not taken, because it would refuse clients that are connected.
type RefusesError struct {
	Refused, Clients int
	Some             []string // of those that are refused: who, and by which rule
}

// Error names some of the clients.
func (e *RefusesError) Error() string {
	more := ""
	if len(e.Some) < e.Refused {
		more = ", …"
	}
	return fmt.Sprintf("it would refuse %d of %d connected clients, more than %d %%: %s%s; xdsrelay reload --yes takes it all the same",
		e.Refused, e.Clients, int(maxRefused*100), strings.Join(e.Some, ", "), more)
}

// mayRefuse reports whether a change may have clients refused that are served now.
func mayRefuse(changed []config.Change) bool {
	return slices.ContainsFunc(changed, func(c config.Change) bool {
		return strings.HasPrefix(c.Path, "access") || strings.HasPrefix(c.Path, "aggregation") || strings.Contains(c.Path, "].access")
	})
}

// refuses gives the error of a plan that would refuse too many of the clients that are served now; nil if it would not. A client
// counts once, however many streams it has.
func (r *router) refuses(next *plan) error {
	refused := make(map[string]string) // by client: who it is, and the rule; "": it is served
	for _, routes := range r.roster.list() {
		who := routes.member.id + " " + routes.peer.Account()
		if refused[who] == "" {
			refused[who] = routes.refusedBy(next)
		}
	}
	e := &RefusesError{Clients: len(refused)}
	for _, why := range refused {
		if why != "" {
			e.Refused++
			e.Some = append(e.Some, why)
		}
	}
	if float64(e.Refused) <= maxRefused*float64(e.Clients) {
		return nil
	}
	slices.Sort(e.Some)
	e.Some = e.Some[:min(len(e.Some), maxNamed)]
	return e
}

// refusedBy gives who the client is, and the rule by which a plan would refuse it; "" if it would not.
func (r *routes) refusedBy(next *plan) string {
	rule := ""
	if err := next.verify(r.node, r.peer); err != nil {
		if e, is := errors.AsType[*rules.UnverifiedError](err); is {
			rule = e.Rule
		}
	} else {
		subject := next.rules.Subject(r.node, *r.peer)
		for _, p := range r.member.placements() {
			_, _, err := subject.Decide(p.TypeURL)
			if e, is := errors.AsType[*rules.RefusedError](err); is {
				rule = e.Rule
			}
		}
	}
	if rule == "" {
		return ""
	}
	return fmt.Sprintf("%s (%s, rule %s)", logs.Printable(r.member.id), logs.Printable(r.peer.Identity()), rule)
}
