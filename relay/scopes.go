package relay

import (
	"crypto/sha256"
	"encoding/json"
	"iter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// maxListed bounds the lists on /scopes. Totals are complete all the same.
const maxListed = 1000

// Scopes implements admin.State.
func (a adminState) Scopes(f admin.ScopeFilter) *admin.Scopes {
	view := &admin.Scopes{Result: a.survey(f).Result(maxListed), XDSTP: []admin.SharedByAll{}}
	for _, s := range a.relay.hub.all() {
		if s.key.scope == xdstpScope && f == (admin.ScopeFilter{}) {
			view.XDSTP = append(view.XDSTP, admin.SharedByAll{Upstream: s.key.plane, Clients: a.relay.hub.users(s), Note: "shared by all"})
		}
	}
	return view
}

// Nodes implements admin.State. A client has a stream for each type, or several: each node is one line.
func (a adminState) Nodes() iter.Seq[*admin.Recorded] {
	return func(yield func(*admin.Recorded) bool) {
		seen := make(map[[sha256.Size]byte]struct{})
		for _, m := range a.relay.router.roster.list() {
			if m.node == nil {
				continue
			}
			node, err := protojson.Marshal(m.node)
			if err != nil {
				continue // an extension of a type that this build does not have
			}
			x := &admin.Recorded{Node: node, Peer: m.peer.Names()}
			wire, _ := proto.MarshalOptions{Deterministic: true}.Marshal(m.node) // protojson could
			names, _ := json.Marshal(x.Peer)                                     // of strings
			key := sha256.Sum256(append(wire, names...))
			if _, twice := seen[key]; twice {
				continue
			}
			seen[key] = struct{}{}
			if !yield(x) {
				return
			}
		}
	}
}

// survey counts the clients that are there now. Scopes without clients, which linger, are
// streams upstream as well.
func (a adminState) survey(f admin.ScopeFilter) *sharing.Survey {
	now := a.relay.router.now.Load()
	survey := sharing.NewSurvey(sharing.Options{Rules: now.named, Policy: now.rules.Policy()})
	for _, m := range a.relay.router.roster.list() {
		var placements []sharing.Placement
		for _, p := range m.member.placements() {
			if f.Takes(p.TypeURL, p.Decision.Rule, p.Decision.Scope) {
				placements = append(placements, p)
			}
		}
		if len(placements) > 0 {
			survey.Add(m.member.id, placements...)
		}
	}
	for _, s := range a.relay.hub.all() {
		if s.key.scope == xdstpScope {
			continue
		}
		known, key := s.comparison.view(now), sharing.Key{Upstream: s.key.plane, Scope: s.key.scope, Basis: s.key.basis}
		known.Upstream, known.Scope = s.key.plane, s.key.scope
		if survey.Has(key) || f.TypeURL == "" && f.Takes("", known.Rule, known.Scope) {
			survey.Know(key, known)
		}
	}
	return survey
}
