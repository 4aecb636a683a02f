package admin_test

import (
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// state is a relay with one client.
type state struct{ admin.Commands }

func (state) Clients() []downstream.Status           { return []downstream.Status{{Node: "n"}, {Node: "m"}} }
func (state) Upstreams() []admin.Upstream            { return nil }
func (state) Scopes(admin.ScopeFilter) *admin.Scopes { return &admin.Scopes{} }
func (state) Resources(*admin.ResourceFilter) iter.Seq[*admin.Resource] {
	return func(func(*admin.Resource) bool) {}
}
func (state) Held(*admin.Command) (*admin.HeldPage, error)            { return nil, admin.Wrong("no upstream") }
func (state) Generations(*admin.Command) ([]admin.Generations, error) { return nil, nil }
func (state) Check() error                                            { return nil }
func (state) Hold(*admin.Command) (*admin.Done, error)                { return &admin.Done{}, nil }
func (state) Release(*admin.Command) (*admin.Done, error)             { return &admin.Done{}, nil }
func (state) Rollback(*admin.Command) (*admin.Done, error)            { return &admin.Done{}, nil }

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
		{"/clients?nod=n", 400, `there is no parameter \"nod\": this page has node`},
		{"/clients?node=n;x", 400, "the query cannot be read"},
		{"/upstreams?x=1", 400, `there is no parameter \"x\": this page has none`},
		{"/resources?type=cds", 200, "[\n]"},
		{"/resources?payload=maybe", 400, "payload: expected true or false"},
		{"/resources?name=xdstp://%25", 400, "name: "},
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
