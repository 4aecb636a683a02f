package admin_test

import (
	"encoding/json"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// state is a relay with one client.
type state struct{ admin.Commands }

func (state) Clients(of func(string) bool, _ delivery.Wanted) []downstream.Status {
	all := []downstream.Status{{ID: 1, Node: "n"}, {ID: 2, Node: "m", Types: map[string]downstream.TypeView{"t": {State: downstream.Behind}, "u": {State: downstream.Current}}}}
	return slices.DeleteFunc(all, func(s downstream.Status) bool { return of != nil && !of(s.Node) })
}
func (state) About() *admin.About                               { return &admin.About{Ready: true} }
func (state) Changes(time.Time, delivery.Wanted) *admin.Changes { return &admin.Changes{} }
func (state) Nodes() iter.Seq[*admin.Recorded] {
	return slices.Values([]*admin.Recorded{{Node: []byte(`{"id": "n"}`), Peer: keyer.Names{DNS: []string{"web"}}}, {Node: []byte(`{}`)}})
}

func (state) Gone() []downstream.Gone {
	return []downstream.Gone{{Status: downstream.Status{Node: "left"}, Why: downstream.WhyKeepalive}}
}
func (state) Upstreams() []admin.Upstream            { return nil }
func (state) Scopes(admin.ScopeFilter) *admin.Scopes { return &admin.Scopes{} }
func (state) Resources(*admin.ResourceFilter) iter.Seq[*admin.Resource] {
	return func(func(*admin.Resource) bool) {}
}
func (state) Held(*admin.Command) (*admin.HeldPage, error)            { return nil, admin.Wrong("no upstream") }
func (state) Passed(*admin.Command) (*admin.Passthrough, error)       { return &admin.Passthrough{}, nil }
func (state) Generations(*admin.Command) ([]admin.Generations, error) { return nil, nil }
func (state) Check() error                                            { return nil }
func (state) Hold(*admin.Command) (*admin.Done, error)                { return &admin.Done{}, nil }
func (state) Release(*admin.Command) (*admin.Done, error)             { return &admin.Done{}, nil }
func (state) Rollback(*admin.Command) (*admin.Done, error)            { return &admin.Done{}, nil }
func (state) Passthrough(*admin.Command) (*admin.Done, error)         { return &admin.Done{}, nil }
func (state) EndPassthrough(*admin.Command) (*admin.Done, error)      { return &admin.Done{}, nil }

func TestPages(t *testing.T) {
	mux := http.NewServeMux()
	p := &admin.Pages{State: state{}, Commands: state{}, Log: slog.New(slog.DiscardHandler), Audit: slog.New(slog.DiscardHandler)}
	p.Handle(mux)
	for _, tt := range []struct {
		path string
		code int
		want string
	}{
		{"/clients", 200, `"node": "m"`},
		{"/clients?node=n", 200, `"node": "n"`},
		{"/clients?nod=n", 400, `there is no parameter \"nod\": this page has node, state,`},
		{"/clients?node=m&node=n", 200, `"node": "m"`},
		{"/clients?names=true", 400, "names: only with node"},
		{"/clients?state=stale", 200, `"state": "behind"`},
		{"/clients?state=rejecting", 200, "[]"},
		{"/clients?state=bad", 400, "expected stale or one of [current behind rejecting waiting]"},
		{"/clients?after=1&limit=1", 200, `"node": "m"`},
		{"/clients?limit=0", 400, "limit: expected a number above zero"},
		{"/nodes", 200, `{"node":{"id":"n"},"peer":{"dns":["web"]}}` + "\n" + `{"node":{}}` + "\n"},
		{"/clients?search=M", 200, `"node": "m"`},
		{"/clients?search=x", 200, "[]"},
		{"/clients?gone=true&search=x", 400, "search: not with gone"},
		{"/clients?gone=true", 200, `"why": "keepalive"`},
		{"/clients?gone=perhaps", 400, "gone: expected true or false"},
		{"/clients?node=n;x", 400, "the query cannot be read"},
		{"/upstreams?x=1", 400, `there is no parameter \"x\": this page has none`},
		{"/resources?type=cds", 200, "[\n]"},
		{"/resources?payload=maybe", 400, "payload: expected true or false"},
		{"/resources?name=xdstp://%25", 400, "name: "},
		{"/resources?nam=x", 400, "this page has upstream, scope, type, name, state, search, payload, limit, after"},
		{"/resources?type=cdz", 400, "cdz"},
		{"/resources?state=gone", 400, "state: expected one of [unknown present absent failed]"},
		{"/resources?limit=many", 400, "limit: expected a number above zero"},
		{"/resources?after=x", 400, "after: expected what the header Link of the page before has"},
		{"/resources?upstream=x", 400, `there is no upstream \"x\"`},
		{"/resources?upstream=resolved&scope=", 200, "[\n]"},
		{"/resources?scope=x", 400, `there is no scope \"x\" now`},
		{"/changes?name=xdstp://%25", 400, "name: "},
		{"/scopes?role=x", 400, "this page has type, rule, scope"},
		{"/held", 400, "no upstream"},
		{"/generations?typ=cds", 400, "this page has upstream, scope, type"},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil))
		if w.Code != tt.code || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: got %d %s, want %d with %q", tt.path, w.Code, w.Body, tt.code, tt.want)
		}
	}
}

// Those who read page by page see every client once.
func TestPages_paging(t *testing.T) {
	mux := http.NewServeMux()
	p := &admin.Pages{State: state{}, Commands: state{}}
	p.Handle(mux)
	query, seen := "?limit=1", ""
	for range 3 {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/clients"+query, nil))
		var page []downstream.Status
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil {
			t.Fatal(err)
		}
		for _, c := range page {
			seen += c.Node
		}
		next, more := strings.CutSuffix(w.Header().Get("Link"), `>; rel="next"`)
		if !more {
			break
		}
		query = strings.TrimPrefix(next, "<")
	}
	if seen != "nm" {
		t.Errorf("seen: %s", seen)
	}
}
