package admin

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// Changes is what changed, as far as the relay remembers (cache.generations, cache.max_bytes).
type Changes struct {
	From    time.Time `json:"from,omitzero"` // since when the list is complete for all scopes
	Changes []Change  `json:"changes"`       // the last first
	Events  []Event   `json:"events"`        // what operators did, the last first
}

// Change is one name that changed. Changes of a scope that follow each other within two seconds have the
// time of the first of them.
type Change struct {
	At       time.Time       `json:"at"`
	Upstream string          `json:"upstream"`
	Scope    string          `json:"scope"`
	TypeURL  string          `json:"type_url"`
	Name     string          `json:"name"`
	Old      string          `json:"old_version,omitempty"` // absent: there was none
	New      string          `json:"new_version,omitempty"` // absent: it is gone
	Before   json.RawMessage `json:"before,omitempty"`      // with diff=true; secrets are left out
	After    json.RawMessage `json:"after,omitempty"`
	Clients  *Spread         `json:"clients,omitempty"` // of what is gone: those that subscribe to it, were told, and acknowledged that; absent: it changed again since
}

// Spread says how many clients have what the relay has of a name now.
type Spread struct {
	Asking   int      `json:"asking"`         // clients that subscribe to it, by its name or otherwise
	Sent     int      `json:"sent"`           // that were sent it
	Accepted int      `json:"accepted"`       // and acknowledged it
	Rejected int      `json:"rejected"`       // or reject it
	Version  string   `json:"version"`        // that the relay has; with several scopes one of them
	Others   []string `json:"lack,omitempty"` // nodes of clients that have not accepted it, the first of them
}

// maxLack bounds the nodes of a Spread.
const maxLack = 10

func (s *Spread) add(node string, d *delivery.Detail) {
	s.Asking++
	if d.Sent != "" {
		s.Sent++
	}
	s.Version = d.Cached
	switch d.Status {
	case delivery.StatusAcked:
		s.Accepted++
		return
	case delivery.StatusNacked:
		s.Rejected++
	}
	if len(s.Others) < maxLack {
		s.Others = append(s.Others, node)
	}
}

// lose adds a client of a name that is gone. How far it is with the type says whether it was told.
func (s *Spread) lose(node string, t *downstream.TypeView) {
	s.Asking++
	if t.WaitsFor != delivery.WaitsForTurn {
		s.Sent++
		if t.WaitsFor != delivery.WaitsForACK {
			s.Accepted++
			return
		}
	}
	if len(s.Others) < maxLack {
		s.Others = append(s.Others, node)
	}
}

// only wants one name.
func only(typeURL, name string) delivery.Wanted {
	return func(t, n string) bool { return t == typeURL && n == name }
}

// changes lists what changed. How many clients have it is worked out from what they were sent.
func (p *Pages) changes(w http.ResponseWriter, q query) error {
	since, err := time.ParseDuration(q.Get("since"))
	if q.Has("since") && (err != nil || since <= 0) {
		return Wrong("since: expected a duration above zero, like 10m")
	}
	if !q.Has("since") {
		since = 10 * time.Minute
	}
	diff, err := q.flag("diff")
	if err != nil {
		return err
	}
	key, err := keyer.Key(q.Get("name"))
	if err != nil {
		return Wrong("name: %v", err)
	}
	asked := func(typeURL, name string) bool {
		return (q.typeURL() == "" || typeURL == q.typeURL()) && (key == "" || name == key)
	}
	payloads := asked
	if !diff {
		payloads = nil
	}
	v := p.State.Changes(time.Now().Add(-since), payloads)
	v.Changes = slices.DeleteFunc(v.Changes, func(c Change) bool { return !asked(c.TypeURL, c.Name) })
	slices.SortStableFunc(v.Changes, func(a, b Change) int { return b.At.Compare(a.At) })
	if len(v.Changes) > maxChanges {
		v.From = v.Changes[maxChanges-1].At
		v.Changes = v.Changes[:maxChanges]
	}
	p.spread(v.Changes)
	ok(w, v)
	return nil
}

// maxChanges bounds /changes.
const maxChanges = 1000

// spread counts the clients that have the last change of each name.
func (p *Pages) spread(all []Change) {
	type key struct{ upstream, scope, typeURL, name string }
	last, wanted, gone := make(map[key]*Spread), make(map[[2]string]bool), make(map[string][]*Change)
	for i := range all {
		c := &all[i]
		k := key{c.Upstream, c.Scope, c.TypeURL, c.Name}
		if _, later := last[k]; later {
			continue
		}
		c.Clients = new(Spread)
		wanted[[2]string{c.TypeURL, c.Name}] = true
		if last[k] = c.Clients; c.New == "" {
			last[k] = nil // nobody has it
			gone[c.TypeURL] = append(gone[c.TypeURL], c)
		}
	}
	if len(wanted) == 0 {
		return
	}
	for _, s := range p.State.Clients(nil, func(typeURL, name string) bool { return wanted[[2]string{typeURL, name}] }) {
		for typeURL, t := range s.Types {
			for _, c := range gone[typeURL] {
				asks := t.Wildcard || slices.ContainsFunc(t.Names, func(d delivery.Detail) bool { return d.Name == c.Name })
				if asks && slices.ContainsFunc(t.From, func(o downstream.Origin) bool { return o.Upstream == c.Upstream && o.Scope == c.Scope }) {
					c.Clients.lose(s.Node, &t)
				}
			}
			for i := range t.Names {
				for _, o := range t.From {
					if x := last[key{o.Upstream, o.Scope, typeURL, t.Names[i].Name}]; x != nil {
						x.add(s.Node, &t.Names[i])
					}
				}
			}
		}
	}
}

// Reach says how far a version of a name has come.
type Reach struct {
	Spread

	Holding map[string]int `json:"holding"` // clients by the version that they acknowledged; "": an older one, or none
}

// reach counts the clients by what they have of a name.
func (p *Pages) reach(w http.ResponseWriter, q query) error {
	typeURL, name := q.typeURL(), q.Get("name")
	if typeURL == "" || name == "" {
		return Wrong("type and name are required")
	}
	if _, err := keyer.Key(name); err != nil {
		return Wrong("name: %v", err)
	}
	v := &Reach{Holding: make(map[string]int)}
	for _, c := range p.State.Clients(nil, only(typeURL, name)) {
		t := c.Types[typeURL]
		for i := range t.Names {
			v.add(c.Node, &t.Names[i])
			v.Holding[t.Names[i].Held]++
		}
	}
	slices.SortFunc(v.Others, strings.Compare)
	ok(w, v)
	return nil
}
