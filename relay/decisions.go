package relay

import (
	"errors"
	"log/slog"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/logs"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// maxKinds is how many kinds of failure and scopes are logged under one plan. The metrics and
// /scopes have all of them.
const maxKinds = 1000

// decisions tells operators what the aggregation rules decide: all in metrics, and in the
// log what they have to look at. Ten thousand clients for which a rule fails in the same
// way make one line. Its methods may be called from any goroutine.
type decisions struct {
	metrics *metrics.Aggregation
	log     *slog.Logger
	logged  logs.Once[string]
}

func newDecisions(m *metrics.Aggregation, log *slog.Logger) *decisions {
	return &decisions{metrics: m, log: log, logged: logs.Once[string]{Most: maxKinds}}
}

// begin is called with the rules of a new plan: what was logged of those before is news
// again.
func (d *decisions) begin(names []string) {
	d.metrics.Rules(append(slices.Clip(names), rules.Otherwise))
	d.logged.Forget()
}

// decided takes a decision on a client's names of a type, or a refusal.
func (d *decisions) decided(node, typeURL string, by rules.Decision, refused error) {
	rule, failed := by.Rule, by.Failed
	if r, ok := errors.AsType[*rules.RefusedError](refused); ok {
		rule, failed = r.Rule, r.Cause
	}
	d.metrics.Decided(rule, failed != nil)
	if failed == nil {
		return
	}
	why := sharing.Reason(failed)
	if !d.news("failure", rule, why) {
		return
	}
	becomes := "isolated"
	if refused != nil {
		becomes = "refused"
	}
	d.log.Warn("an aggregation rule fails for some clients", "clients", becomes,
		"rule", rule, "error", why, "type", keyer.ShortName(clipped(typeURL)), "node", clipped(node))
}

// differing takes the fields in which a client's node differs from the first one's of its
// scope, and that no rule mentions.
func (d *decisions) differing(at sessionKey, rule string, fields []string) {
	if !d.news("fields", at.plane, at.scope) {
		return
	}
	d.log.Warn("clients of a scope differ in fields that no aggregation rule mentions: does the control plane read these fields?",
		"upstream", at.plane, "scope", at.scope, "rule", rule, "fields", fields)
}

// news reports whether something is to be logged: nothing is logged twice.
func (d *decisions) news(kind ...string) bool { return d.logged.First(strings.Join(kind, "\x00")) }

// clipped bounds what a client brings into the log.
func clipped(s string) string { return s[:min(len(s), maxLoggedName)] }
