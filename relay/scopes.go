package relay

import (
	"net/http"
	"net/url"

	"github.com/xdsrelay/xdsrelay/internal/sharing"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// maxListed bounds the lists on /scopes. Totals are complete all the same.
const maxListed = 1000

// scopesView is /scopes: what the aggregation rules come to for the clients that are
// there now, in the form in which explain shows a recorded fleet.
type scopesView struct {
	*sharing.Result

	XDSTP []sharedByAll `json:"xdstp"`
}

// sharedByAll is a session of xdstp names, which the rules have no part in.
type sharedByAll struct {
	Upstream string `json:"upstream"` // "resolved": names that the relay resolves by itself
	Scope    string `json:"scope"`    // ""
	Clients  int    `json:"clients"`
	Note     string `json:"note"`
}

// scopeFilter is what is asked for; what is empty is everything.
type scopeFilter struct{ typeURL, rule, scope string }

func newScopeFilter(q url.Values) scopeFilter {
	f := scopeFilter{typeURL: q.Get("type"), rule: q.Get("rule"), scope: q.Get("scope")}
	if full, ok := keyer.TypeURL(f.typeURL); ok {
		f.typeURL = full
	}
	return f
}

func (f scopeFilter) takes(typeURL, rule, scope string) bool {
	return (f.typeURL == "" || f.typeURL == typeURL) && (f.rule == "" || f.rule == rule) && (f.scope == "" || f.scope == scope)
}

func (a adminPort) serveScopes(w http.ResponseWriter, req *http.Request) {
	f := newScopeFilter(req.URL.Query())
	view := scopesView{Result: a.survey(f).Result(maxListed), XDSTP: []sharedByAll{}}
	for _, s := range a.relay.hub.all() {
		if s.key.scope == xdstpScope && f == (scopeFilter{}) {
			view.XDSTP = append(view.XDSTP, sharedByAll{Upstream: s.key.plane, Clients: a.relay.hub.users(s), Note: "shared by all"})
		}
	}
	indented(w, view)
}

// survey counts the clients that are there now. Scopes without clients, which linger, are
// streams upstream as well.
func (a adminPort) survey(f scopeFilter) *sharing.Survey {
	now := a.relay.router.now.Load()
	survey := sharing.NewSurvey(sharing.Options{Rules: now.named, Policy: now.rules.Policy()})
	for _, m := range a.relay.router.roster.list() {
		var placements []sharing.Placement
		for _, p := range m.placements() {
			if f.takes(p.TypeURL, p.Decision.Rule, p.Decision.Scope) {
				placements = append(placements, p)
			}
		}
		if len(placements) > 0 {
			survey.Add(m.id, placements...)
		}
	}
	for _, s := range a.relay.hub.all() {
		if s.key.scope == xdstpScope {
			continue
		}
		known, key := s.comparison.view(now), sharing.Key{Upstream: s.key.plane, Scope: s.key.scope, Basis: s.key.basis}
		known.Upstream, known.Scope = s.key.plane, s.key.scope
		if survey.Has(key) || f.typeURL == "" && f.takes("", known.Rule, known.Scope) {
			survey.Know(key, known)
		}
	}
	return survey
}
