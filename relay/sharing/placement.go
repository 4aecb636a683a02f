package sharing

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// ErrNoDefault says that names without an authority are served by no upstream.
var ErrNoDefault = errors.New("there is no default upstream: the relay serves only xdstp names of configured authorities")

// Placement is what becomes of one client's names of one type.
type Placement struct {
	TypeURL  string
	Upstream string // who is asked; "" if nothing is served
	Decision rules.Decision
	ByName   bool  // the type is decided name by name
	Refused  error // nothing is served: a [*rules.RefusedError] or [ErrNoDefault]
}

// Place asks the rules where a client's names of a type are served, or one name if it
// is not nil. A type that is decided name by name is placed for a name only. upstream is
// the default one, "" if there is none.
func Place(client *rules.Subject, typeURL string, name *string, upstream string) Placement {
	p := Placement{TypeURL: typeURL}
	p.Decision, p.ByName, p.Refused = client.Decide(typeURL)
	switch {
	case p.ByName && name == nil:
		return Placement{TypeURL: typeURL, ByName: true}
	case p.ByName:
		p.Decision, p.Refused = client.DecideName(typeURL, *name)
	}
	if p.Refused != nil {
		return p
	}
	if p.Upstream = cmp.Or(p.Decision.Upstream, upstream); p.Upstream == "" {
		p.Refused = ErrNoDefault
	}
	return p
}

// Served reports that there is a scope.
func (p *Placement) Served() bool { return p.Refused == nil && p.Decision.Scope != "" }

// Refusal gives who refuses, and why.
func (p *Placement) Refusal() (rule, reason string) {
	refused, ok := errors.AsType[*rules.RefusedError](p.Refused)
	switch {
	case !ok:
		return p.Decision.Rule, p.Refused.Error()
	case refused.Cause != nil:
		return refused.Rule, refused.Cause.Error()
	default:
		return refused.Rule, "aggregation.otherwise is refuse"
	}
}

// Reason says in few words why a rule could not be evaluated, without the rule's name.
func Reason(failed error) string {
	if f, ok := errors.AsType[*rules.FailedError](failed); ok {
		return fmt.Sprintf("%s: %s: %v", f.Field, f.Expression, f.Cause)
	}
	return failed.Error()
}
