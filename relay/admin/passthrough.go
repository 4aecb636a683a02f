package admin

import (
	"fmt"
	"net/http"

	"github.com/xdsrelay/xdsrelay/downstream"
)

// Passthrough is which streams are served 1:1. What is empty in a rule selects all.
type Passthrough struct {
	Rules  []PassRule `json:"rules"`  // in force
	Passed int        `json:"passed"` // streams that are served 1:1, and that the selectors of the query select
	Cached int        `json:"cached"` // those that the cache serves: each would open a stream to its control plane
}

// PassRule is a rule in force.
type PassRule struct {
	Upstream   string `json:"upstream,omitempty"`
	Scope      string `json:"scope,omitempty"`
	TypeURL    string `json:"type_url,omitempty"`
	Configured bool   `json:"configured"` // by the key passthrough; false: by a command, until the relay restarts
	Passed     int    `json:"passed"`     // streams that are served 1:1, and that the rule selects
}

// passthrough shows which streams are served 1:1.
func (p *Pages) passthrough(w http.ResponseWriter, q query) error {
	v, err := p.State.Passed(q.command())
	if err == nil {
		ok(w, v)
	}
	return err
}

// passed adds that streams are served 1:1: the operator is to know before anything else is looked for.
func (f *findings) passed(v *Passthrough) {
	for _, r := range v.Rules {
		what, next := "all streams", "xdsrelay passthrough off"
		if r.TypeURL != "" {
			what = "streams of the service of type " + short(r.TypeURL)
			next += " --type " + short(r.TypeURL)
		}
		if r.Upstream != "" {
			what += " to " + r.Upstream
			next += " --upstream " + word(r.Upstream)
		}
		if r.Scope != "" {
			what += fmt.Sprintf(" in scope %q", r.Scope)
			next += " --scope " + word(r.Scope)
		}
		text := fmt.Sprintf("The relay serves %s 1:1, %d now: nothing is shared, kept or held for these clients.", what, r.Passed)
		if r.Passed == 0 {
			text = "A rule has the relay serve " + what + " 1:1. It serves none so now."
		}
		f.add(Problem{
			Kind: PassedThrough, Upstream: r.Upstream, TypeURL: r.TypeURL, Next: next + " --yes", Text: text,
		})
	}
}

// passedState is the state of clients that are served 1:1, beside those of downstream.States.
const passedState = "passed"

// stateOf counts a client by its state, and adds what is wrong with it.
func (f *findings) stateOf(c *downstream.Status) string {
	if c.Passed != nil {
		return passedState
	}
	return string(f.client(c))
}
