package relay

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

func TestResourceView_TTL2(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tc := range []struct {
		name    string
		expires time.Time
		want    string
	}{
		{"TTL-2 when it expires", at, `"expires":"2026-01-02T03:04:05Z"`},
		{"TTL-2 nothing without a ttl", time.Time{}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, err := json.Marshal(viewResource(nil, sessionKey{plane: "p"}, &cache.Info{Name: "a", Expires: tc.expires}, false))
			if err != nil {
				t.Fatal(err)
			}
			if got := string(b); !strings.Contains(got, tc.want) || strings.Contains(got, "expires") != (tc.want != "") {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Those who read the cached resources page by page see each of them once, whatever stores they are in, and while others come.
func TestResources_paging(t *testing.T) {
	a := newPlaneServer(t, contents{"x": "1", "Yes": "1", "z": "1"})
	cfg := configOf(upstreamAt("a", a.address))
	cfg.Aggregation.Rules = []config.Rule{{Name: "each", Match: "true", Scope: []string{"node.id"}}}
	r := run(t, cfg)
	for _, node := range []string{"m", "n"} {
		r.join(node).holds(contents{"x": "1", "Yes": "1", "z": "1"})
	}
	all := func(query string) (seen []string) {
		for query += "limit=1"; ; {
			resp, err := http.Get("http://" + r.admin + "/resources?" + query)
			if err != nil {
				t.Fatal(err)
			}
			var page []admin.Resource
			err = json.NewDecoder(resp.Body).Decode(&page)
			if resp.Body.Close(); err != nil || len(page) > 1 {
				t.Fatalf("%s: %v, %d resources", query, err, len(page))
			}
			for _, x := range page {
				seen = append(seen, x.Scope+" "+x.Name)
			}
			next, more := strings.CutSuffix(resp.Header.Get("Link"), `>; rel="next"`)
			if query = strings.TrimPrefix(next, "<?"); !more || len(seen) > 10 {
				return seen
			}
		}
	}
	scopes := r.relay.hub.all()
	m, n := scopes[0].key.scope, scopes[1].key.scope
	for query, want := range map[string][]string{
		"type=cds&state=present&": {m + " Yes", m + " x", m + " z", n + " Yes", n + " x", n + " z"},
		"type=cds&search=Y&":      {m + " Yes", n + " Yes"},
		"type=cds&name=x&":        {m + " x", n + " x"},
		"type=cds&state=present&scope=" + url.QueryEscape(n) + "&": {n + " Yes", n + " x", n + " z"},
		"type=cds&upstream=a&search=z&":                            {m + " z", n + " z"},
		"type=eds&":                                                nil,
	} {
		if got := all(query); !slices.Equal(got, want) {
			t.Errorf("%s: got %q, want %q", query, got, want)
		}
	}
}
