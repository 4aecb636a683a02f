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

// refuses gives the error of a plan that would refuse too many of the clients that are served now; nil if it would not.
func refuses(refused map[string]string) error {
	e := &RefusesError{Clients: len(refused)}
	if e.Refused, e.Some = someOf(refused); float64(e.Refused) <= maxRefused*float64(e.Clients) {
		return nil
	}
	return e
}

// refused says of each client that is served now who it is, and the rule by which a plan would refuse it; "": it would not.
// A client counts once, however many streams it has.
func (r *router) refused(next *plan) map[string]string {
	refused := make(map[string]string)
	for _, routes := range r.roster.list() {
		if who := routes.account(); refused[who] == "" {
			refused[who] = routes.refusedBy(next)
		}
	}
	return refused
}

// someOf counts the clients that something is said of, and gives what is said of the first of them.
func someOf(all map[string]string) (n int, some []string) {
	for _, text := range all {
		if text != "" {
			some = append(some, text)
		}
	}
	slices.Sort(some)
	return len(some), some[:min(len(some), maxNamed)]
}

// account tells the client from others. It is the same of all streams of a client.
func (r *routes) account() string { return r.member.id + " " + r.peer.Account() }

// shown says who the client is, and something of it.
func (r *routes) shown(more string) string {
	if identity := r.peer.Identity(); identity != "" {
		more = logs.Printable(identity) + ", " + more
	}
	return fmt.Sprintf("%s (%s)", logs.Printable(r.member.id), more)
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
	return r.shown("rule " + rule)
}
