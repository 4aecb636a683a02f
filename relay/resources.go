package relay

import (
	"bufio"
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/payload"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// resourceView is one name on /resources.
type resourceView struct {
	Upstream string `json:"upstream"`
	Scope    string `json:"scope"`
	cache.Info
	Payload json.RawMessage `json:"payload,omitempty"`
}

// serveResources lists what is cached: of one type (by URL or short name), of one
// name, with the payloads if one name or payload=true is asked for. It writes one
// element at a time, since a cache may hold a million of them.
func (a adminPort) serveResources(w http.ResponseWriter, req *http.Request) {
	q := req.URL.Query()
	typeURL, name := q.Get("type"), q.Get("name")
	if full, ok := keyer.TypeURL(typeURL); ok {
		typeURL = full
	}
	payloads := name != ""
	if p := q.Get("payload"); p != "" {
		var err error
		if payloads, err = strconv.ParseBool(p); err != nil {
			http.Error(w, "payload: expected true or false", http.StatusBadRequest)
			return
		}
	}
	key, err := keyer.Key(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resolved, err := keyer.ResolvedKey(name)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	out := bufio.NewWriter(w)
	defer func() { _ = out.Flush() }() // the client is gone if this fails
	_, _ = out.WriteString("[")
	separator := "\n  "
	for _, s := range a.relay.hub.all() {
		at := key
		if s.key.resolved {
			at = resolved
		}
		infos := s.store.Resources(typeURL, at)
		slices.SortFunc(infos, func(a, b cache.Info) int {
			return cmp.Or(cmp.Compare(a.TypeURL, b.TypeURL), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
		})
		for _, i := range infos {
			line, err := json.Marshal(viewResource(s.key, i, payloads))
			if err != nil {
				continue // nothing in it can fail to be encoded
			}
			_, _ = out.WriteString(separator)
			if _, err := out.Write(line); err != nil {
				return
			}
			separator = ",\n  "
		}
	}
	_, _ = out.WriteString("\n]\n")
}

// viewResource shows one name. Nothing secret is shown, nor what might be and
// cannot be looked into (OPS-6).
func viewResource(key sessionKey, i cache.Info, payloads bool) resourceView {
	v := resourceView{Upstream: key.plane, Scope: key.scope, Info: i}
	if payloads {
		v.Payload = payload.JSON(i.Resource, i.TypeURL, payload.BySize)
	}
	return v
}
