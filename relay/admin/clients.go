package admin

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
)

// clients lists the clients that match. With a limit the header Link has the query for those after them.
func (p *Pages) clients(w http.ResponseWriter, q query) error {
	switch gone, err := q.flag("gone"); {
	case err != nil:
		return err
	case gone:
		return p.gone(w, q)
	}
	all, err := q.flag("names")
	if err != nil {
		return err
	}
	var names delivery.Wanted
	if all {
		names = everything
	}
	limit, err := q.number("limit")
	if err != nil {
		return err
	}
	after, err := q.number("after")
	if err != nil {
		return err
	}
	state := downstream.ClientState(q.Get("state"))
	if state != "" && state != stale && !slices.Contains(downstream.States, state) {
		return Wrong("state: expected stale or one of %v", downstream.States)
	}
	of := ofNodes(q.Values["node"]...)
	if of == nil && all { // of a large fleet they would take all memory
		return Wrong("names: only with node, which may be given several times")
	}
	found := slices.DeleteFunc(p.State.Clients(of, names), func(s downstream.Status) bool {
		return s.ID <= after || !mentions(&s, q.Get("search")) || !matches(&s, q.typeURL(), state)
	})
	if limit > 0 && uint64(len(found)) > limit {
		found = found[:limit]
		q.goesOn(w, strconv.FormatUint(found[limit-1].ID, 10))
	}
	ok(w, append([]downstream.Status{}, found...))
	return nil
}

// mentions reports whether the client's node, cluster, address or identity has a text in it, in whatever case.
func mentions(s *downstream.Status, text string) bool {
	return text == "" || strings.Contains(strings.ToLower(strings.Join([]string{s.Node, s.Cluster, s.Peer, s.SPIFFE, s.Subject}, "\n")), strings.ToLower(text))
}

// ofNodes reports the nodes with these IDs; nil, for all: without one.
func ofNodes(ids ...string) func(node string) bool {
	if ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" }); len(ids) == 0 {
		return nil
	}
	return func(node string) bool { return slices.Contains(ids, node) }
}

// gone lists clients that have gone. There are few: it has no pages.
func (p *Pages) gone(w http.ResponseWriter, q query) error {
	for _, name := range []string{"state", "type", "search", "names", "limit", "after"} {
		if q.Has(name) {
			return Wrong("%s: not with gone", name)
		}
	}
	all := slices.DeleteFunc(p.State.Gone(), func(g downstream.Gone) bool { return q.Get("node") != "" && g.Node != q.Get("node") })
	ok(w, append([]downstream.Gone{}, all...))
	return nil
}

// stale is any state but current.
const stale downstream.ClientState = "stale"

// matches reports whether a client has a type in a state. It keeps only these types of the client.
func matches(s *downstream.Status, typeURL string, state downstream.ClientState) bool {
	if typeURL == "" && state == "" {
		return true
	}
	if s.Passed != nil { // it may have the type
		return state == ""
	}
	for url, t := range s.Types {
		if typeURL != "" && url != typeURL || state == stale && t.State == downstream.Current || state != "" && state != stale && t.State != state {
			delete(s.Types, url)
		}
	}
	return len(s.Types) > 0
}

// everything wants all names.
func everything(string, string) bool { return true }
