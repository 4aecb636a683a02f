package admin

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// ResourceFilter says which resources; what is empty is everything.
type ResourceFilter struct {
	Upstream string
	Scope    *string
	TypeURL  string
	Key      string // of one name
	Resolved string // the same where the relay resolves names by itself
	State    string
	Search   string // a part of the name, in lower case
	After    Place  // those behind it
	Payloads bool   // with them
}

// newResourceFilter is for a type and a name, each "" for all.
func newResourceFilter(typeURL, name string) (f ResourceFilter, err error) {
	f.TypeURL = typeURL
	if f.Key, err = keyer.Key(name); err != nil {
		return f, Wrong("name: %v", err)
	}
	if f.Resolved, err = keyer.ResolvedKey(name); err != nil {
		return f, Wrong("name: %v", err)
	}
	return f, nil
}

// Place orders resources: the upstream, the scope, the rules and the metadata of its store, type, name and kind.
type Place [7]string

// storeParts is how much of a Place is of the store.
const storeParts = 4

// Of is the place of a resource in the store of this place.
func (p Place) Of(i *cache.Info) Place {
	return Place{p[0], p[1], p[2], p[3], i.TypeURL, i.Name, i.Kind}
}

// cursor gives a place as a parameter.
func (p Place) cursor() string {
	text, _ := json.Marshal(p) //nolint:errchkjson // strings
	return base64.RawURLEncoding.EncodeToString(text)
}

// Store reports whether a store may have such resources.
func (f *ResourceFilter) Store(at Place) bool {
	return (f.Upstream == "" || f.Upstream == at[0]) && (f.Scope == nil || *f.Scope == at[1]) && slices.Compare(at[:storeParts], f.After[:storeParts]) >= 0
}

// Takes reports whether a resource of such a store is one of them.
func (f *ResourceFilter) Takes(store Place, i *cache.Info) bool {
	if f.State != "" && f.State != i.State || f.Search != "" && !strings.Contains(strings.ToLower(i.Name), f.Search) {
		return false
	}
	at := store.Of(i)
	return slices.Compare(at[:], f.After[:]) > 0
}

// resourceStates are the states of names in the cache.
var resourceStates = []string{"unknown", "present", "absent", "failed"}

// resourceFilter is what a query asks for. Each filter must name something that there is.
func (p *Pages) resourceFilter(q query) (f ResourceFilter, err error) {
	if f, err = newResourceFilter(q.typeURL(), q.Get("name")); err != nil {
		return f, err
	}
	f.Upstream, f.Scope, f.State, f.Search = q.Get("upstream"), q.command().Scope, q.Get("state"), strings.ToLower(q.Get("search"))
	f.Payloads = q.Get("name") != ""
	if q.Has("payload") {
		if f.Payloads, err = q.flag("payload"); err != nil {
			return f, err
		}
	}
	if f.State != "" && !slices.Contains(resourceStates, f.State) {
		return f, Wrong("state: expected one of %v", resourceStates)
	}
	if q.Has("after") {
		text, err := base64.RawURLEncoding.DecodeString(q.Get("after"))
		if err != nil || json.Unmarshal(text, &f.After) != nil {
			return f, Wrong("after: expected what the header Link of the page before has")
		}
	}
	err = p.present(&f)
	return f, err
}

// present looks for the upstream and the scope of a filter. The scope of xdstp names can always come.
func (p *Pages) present(f *ResourceFilter) error {
	if f.Upstream == "" && f.Scope == nil {
		return nil
	}
	upstream, scope := f.Upstream == "" || f.Upstream == Resolved, f.Scope == nil || *f.Scope == ""
	for _, u := range p.State.Upstreams() {
		if f.Upstream != "" && f.Upstream != u.Name {
			continue
		}
		upstream = true
		scope = scope || slices.ContainsFunc(u.Sessions, func(s Session) bool { return s.Scope == *f.Scope })
	}
	switch {
	case !upstream:
		return Wrong("there is no upstream %q", f.Upstream)
	case !scope:
		return Wrong("there is no scope %q now: /scopes lists them", *f.Scope)
	}
	return nil
}

// Resolved stands for the upstream of names that the relay resolves by itself.
const Resolved = "resolved"

// resources lists what is cached, with the payloads if one name or payload=true is asked for. It writes one element at a time.
// With a limit the header Link has the query for those after them.
func (p *Pages) resources(w http.ResponseWriter, q query) error {
	f, err := p.resourceFilter(q)
	if err != nil {
		return err
	}
	limit, err := q.number("limit")
	if err != nil {
		return err
	}
	all := p.State.Resources(&f)
	if limit > 0 {
		var page []*Resource
		for r := range all {
			if uint64(len(page)) == limit {
				q.goesOn(w, page[limit-1].Place.cursor())
				break
			}
			page = append(page, r)
		}
		all = slices.Values(page)
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }() // the client is gone if this fails
	_, _ = out.WriteString("[")
	separator := "\n  "
	for r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			continue // nothing in it can fail to be encoded
		}
		_, _ = out.WriteString(separator)
		if _, err := out.Write(line); err != nil {
			return nil
		}
		separator = ",\n  "
	}
	_, _ = out.WriteString("\n]\n")
	return nil
}
