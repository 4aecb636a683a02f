package admin

import (
	"encoding/json"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// Resource is one name on /resources.
type Resource struct {
	Upstream string `json:"upstream"`
	Scope    string `json:"scope"`
	cache.Info
	Payload json.RawMessage `json:"payload,omitempty"`
	Place   Place           `json:"-"`
}

// Recorded is a client that is there now, in the form of a recorded fleet.
type Recorded struct {
	Node json.RawMessage `json:"node"` // an envoy.config.core.v3.Node
	Peer keyer.Names     `json:"peer,omitzero"`
}

// Scopes is /scopes: what the aggregation rules come to for the clients that are there now, in the form in
// which explain shows a recorded fleet.
type Scopes struct {
	*sharing.Result

	XDSTP []SharedByAll `json:"xdstp"`
}

// SharedByAll is a session of xdstp names, which the rules have no part in.
type SharedByAll struct {
	Upstream string `json:"upstream"` // "resolved": names that the relay resolves by itself
	Scope    string `json:"scope"`    // ""
	Clients  int    `json:"clients"`
	Note     string `json:"note"`
}

// ScopeFilter says which scopes; what is empty is everything.
type ScopeFilter struct{ TypeURL, Rule, Scope string }

// Takes reports whether a type of a scope is one of them.
func (f ScopeFilter) Takes(typeURL, rule, scope string) bool {
	return (f.TypeURL == "" || f.TypeURL == typeURL) && (f.Rule == "" || f.Rule == rule) && (f.Scope == "" || f.Scope == scope)
}
