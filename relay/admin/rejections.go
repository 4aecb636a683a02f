package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Rejection is what clients reject now. What was repaired, or what no client subscribes to any more, is none.
type Rejection struct {
	TypeURL  string    `json:"type_url"`
	Resource string    `json:"resource,omitempty"` // absent: the relay does not know which of the response it is
	Version  string    `json:"version,omitempty"`
	Alone    bool      `json:"alone"`  // it stood alone in the response; else it is one of several candidates
	Reason   string    `json:"reason"` // of a client; the others may word it otherwise
	Since    time.Time `json:"since"`  // of the first of the present rejections
	Clients  int       `json:"clients"`
	Nodes    []string  `json:"nodes"`    // some of the clients
	Upstream string    `json:"upstream"` // that it came from
	Scope    string    `json:"scope"`
}

// maxNodes bounds the clients that a Rejection names.
const maxNodes = 20

// rejections groups by resource, version and reason.
func (p *Pages) rejections(w http.ResponseWriter, q query) error {
	type key struct{ typeURL, resource, version, reason, upstream, scope string }
	found := make(map[key]*Rejection)
	for _, c := range p.State.Clients(ofNodes(q.Get("node")), nil) {
		for url, t := range c.Types {
			if t.LastNack == nil || t.State != "rejecting" || q.Has("type") && url != q.typeURL() {
				continue
			}
			r := Rejection{TypeURL: url, Reason: t.LastNack.Message, Since: t.LastNack.At, Nodes: []string{}}
			if len(t.From) > 0 {
				r.Upstream, r.Scope = t.From[0].Upstream, t.From[0].Scope
			}
			all := make([]Rejection, 0, 1)
			for _, x := range t.Rejects {
				one := r
				one.Resource, one.Version, one.Alone = x.Name, x.Version, x.Alone
				all = append(all, one)
			}
			if len(all) == 0 {
				all = append(all, r)
			}
			for _, r := range all {
				k := key{url, r.Resource, r.Version, r.Reason, r.Upstream, r.Scope}
				if found[k] == nil {
					found[k] = &r
				}
				known := found[k]
				known.Clients++
				known.Alone = known.Alone || r.Alone
				if r.Since.Before(known.Since) {
					known.Since = r.Since
				}
				if node := cmp.Or(c.Node, c.Peer); len(known.Nodes) < maxNodes && !slices.Contains(known.Nodes, node) {
					known.Nodes = append(known.Nodes, node)
				}
			}
		}
	}
	list := make([]Rejection, 0, len(found))
	for _, r := range found {
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Rejection) int {
		return cmp.Or(cmp.Compare(b.Clients, a.Clients), strings.Compare(a.TypeURL, b.TypeURL), strings.Compare(a.Resource, b.Resource), strings.Compare(a.Reason, b.Reason))
	})
	ok(w, list)
	return nil
}
