package relay

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// command gives a command as an operator does, and returns the code and the body.
func (r *running) command(path, body string, header ...string) (int, string) {
	r.Helper()
	return r.ask(http.MethodPost, path, body, header...)
}

// ask asks the admin port, and returns the code and the body.
func (r *running) ask(method, path, body string, header ...string) (int, string) {
	r.Helper()
	req, err := http.NewRequestWithContext(r.Context(), method, "http://"+r.admin+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// does gives a command that is carried out.
func (r *running) does(path, body string) (done admin.Done) {
	r.Helper()
	code, answer := r.command(path, body)
	if err := json.Unmarshal([]byte(answer), &done); err != nil || code != http.StatusOK {
		r.Fatalf("%s %s: %d %s", path, body, code, answer)
	}
	return done
}

// Commands come as JSON by POST, and from no page of another site. Each leaves a line in the log.
func TestCommands_GATE4_ACC7(t *testing.T) {
	r := run(t, configOf(upstreamAt("a", newPlaneServer(t, contents{}).address)))
	for _, path := range []string{"/hold", "/release", "/rollback"} {
		if code, _ := r.ask(http.MethodGet, path, ""); code != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", path, code)
		}
		for _, tt := range []struct {
			body   string
			header []string
			code   int
			reason string
		}{
			{"{}", []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType, "application/json"},
			{"{}", []string{"Content-Type", ""}, http.StatusUnsupportedMediaType, "application/json"},
			{"{}", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "another site"},
			{"{}", []string{"Sec-Fetch-Site", "same-site"}, http.StatusForbidden, "another site"},
			{"{}", []string{"Origin", "https://example.com"}, http.StatusForbidden, "another site"},
			{"", nil, http.StatusBadRequest, "no JSON"},
			{`{"upstrem": "a"}`, nil, http.StatusBadRequest, "upstrem"},
			{`{"upstream": "b"}`, nil, http.StatusBadRequest, `no upstream \"b\"`},
			{`{"types": ["sds"]}`, nil, http.StatusBadRequest, "secrets"},
			{`{"types": ["what"]}`, nil, http.StatusBadRequest, `unknown type \"what\"`},
			{`{"for": "-1s", "guard": true}`, nil, http.StatusBadRequest, "only"},
			{`{"upstream": "` + strings.Repeat("a", admin.MaxCommand) + `"}`, nil, http.StatusBadRequest, "too large"},
		} {
			if code, answer := r.command(path, tt.body, tt.header...); code != tt.code || !strings.Contains(answer, tt.reason) {
				t.Errorf("%s %.100s %q: %d %s", path, tt.body, tt.header, code, answer)
			}
		}
	}
	if code, answer := r.command("/hold", `{"for": "soon"}`); code != http.StatusBadRequest || !strings.Contains(answer, "duration") {
		t.Errorf("%d %s", code, answer)
	}
	if n := strings.Count(r.log.String(), "refused an operator's command"); n != 37 {
		t.Errorf("%d refusals are in the log", n)
	}
	if p := r.page("/held"); !strings.Contains(p, `"orders": []`) {
		t.Errorf("what was refused is held: %s", p)
	}
	r.does("/hold", `{"upstream": "a", "types": ["lds"], "for": "1h"}`)
	r.does("/release", `{"guard": true, "scope": ""}`)
	for _, want := range []string{
		`carried out an operator's command" command=hold from=127.0.0.1:`, `upstream=a scope=all type=lds for=1h scopes=0 released=0 changed=0 failed=0 warning="cache.dir`,
		`command=release from=127.0.0.1:`, `upstream=all scope="xdstp names" type=all only=guard`,
	} {
		if log := r.log.String(); !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	r.shows("/readyz", "held by an operator since", "upstream a, scope all, type type.googleapis.com/envoy.config.listener.v3.Listener, until 2")
	if code, answer := r.command("/held", ""); code != http.StatusMethodNotAllowed {
		t.Errorf("POST /held: %d %s", code, answer)
	}
}

// What an operator holds is the same for scopes that come later, and a scope that is held does not
// end while nobody uses it.
func TestHold_GATE4_laterScopes(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Aggregation.Linger = 0
	cfg.Upstreams[0].Settle = config.Duration(time.Millisecond)
	r := run(t, cfg)
	if done := r.does("/hold", `{}`); len(done.Scopes) != 0 || len(done.Warnings) != 1 {
		t.Errorf("%+v", done)
	}
	first := r.join("n")
	first.holds(contents{"x": "1"})
	r.shows("/metrics", `xdsrelay_table_frozen{type="cds",upstream="a"} 1`)
	first.stop()
	r.join("n").holds(contents{"x": "1"})
	if log := r.log.String(); strings.Contains(log, "session closed") {
		t.Errorf("a scope that is held ended: %s", log)
	}
	if done := r.does("/release", `{}`); len(done.Scopes) != 1 || done.Scopes[0].Upstream != "a" || len(done.Warnings) != 0 {
		t.Errorf("%+v", done)
	}
	r.shows("/metrics", `xdsrelay_table_frozen{type="cds",upstream="a"} 0`)
	r.check()
}

// What a command names must be there, unless the operator says that it may come.
func TestCommandsOfNothing_GATE4(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", plane.address))
	r := run(t, cfg)
	r.join("n").holds(contents{"x": "1"})
	var scopes []admin.Generations
	if err := json.Unmarshal([]byte(r.page("/generations")), &scopes); err != nil || len(scopes) != 1 {
		t.Fatalf("%+v, %v", scopes, err)
	}
	scope, err := json.Marshal(scopes[0].Scope)
	if err != nil {
		t.Fatal(err)
	}
	for body, want := range map[string]string{
		`{"scope": "typo"}`: `there is no scope \"typo\" now`,
		`{"scope": ` + string(scope) + `, "upstream": "b"}`: `there is no upstream \"b\"`,
		`{"types": ["type.googleapis.com/envoy.Clusterr"]}`: `nobody knows the type \"type.googleapis.com/envoy.Clusterr\"`,
	} {
		for _, path := range []string{"/hold", "/release"} {
			if code, answer := r.command(path, body); code != http.StatusBadRequest || !strings.Contains(answer, want) {
				t.Errorf("%s %s: %d %s, want %s", path, body, code, answer, want)
			}
		}
		r.does("/hold", strings.Replace(body, "{", `{"future": true, `, 1))
		if done := r.does("/release", strings.Replace(body, "{", `{"future": true, `, 1)); done.Nothing {
			t.Errorf("released %s: %+v", body, done)
		}
	}
	if done := r.does("/release", `{}`); !done.Nothing {
		t.Errorf("released nothing: %+v", done)
	}
	if done := r.does("/hold", `{"scope": `+string(scope)+`, "types": ["cds"]}`); len(done.Scopes) != 1 || done.Nothing {
		t.Errorf("%+v", done)
	}
	r.shows("/held", `"held": true`)
	if log := r.log.String(); !strings.Contains(log, "future=true") {
		t.Errorf("the log has no word of it: %s", log)
	}
}

// Orders are as they were after a restart with cache.dir. A file that cannot be read costs the orders,
// and nothing else.
func TestOrders_GATE4_restart(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Cache.Dir = t.TempDir()
	r := run(t, cfg)
	if done := r.does("/hold", `{"scope": "", "types": ["cds", "example.com/T"], "for": "2h", "future": true}`); len(done.Warnings) != 0 {
		t.Errorf("%+v", done)
	}
	r.does("/release", `{"types": ["cds"]}`)
	orders := r.page("/held")
	r.stop()
	r = run(t, cfg)
	if now := r.page("/held"); now != orders || !strings.Contains(now, "example.com/T") {
		t.Errorf("%s\nafter a restart:\n%s", orders, now)
	}
	if log := r.log.String(); !strings.Contains(log, `by an operator's order the relay holds back`) || !strings.Contains(log, `scope="xdstp names" type=example.com/T`) {
		t.Errorf("the log has no word of it: %s", log)
	}
	r.stop()
	for _, bad := range []string{"{", `{"version": 2}`, `{"version": 1, "orders": [{"frozen": true}]}`} {
		if err := os.WriteFile(filepath.Join(cfg.Cache.Dir, "orders.json"), []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		r = run(t, cfg)
		r.shows("/held", `"orders": []`)
		if log := r.log.String(); !strings.Contains(log, "the orders of operators cannot be read") {
			t.Errorf("%s: %s", bad, log)
		}
		r.does("/hold", `{}`)
		r.stop()
	}
	r = run(t, cfg)
	r.shows("/held", `"held": true`)
}

func TestOrdersFile_GATE4(t *testing.T) {
	scope := "s"
	since := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	all := hold.Orders{
		{Selector: hold.Selector{Upstream: "a", Scope: &scope, Type: "t"}, Freeze: hold.Freeze{Since: since, Until: since.Add(1)}, Frozen: true, Flows: true},
		{Selector: hold.Selector{Scope: new("")}},
	}
	data, err := encodeOrders(all)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := decodeOrders(data); err != nil || !reflect.DeepEqual(got, all) {
		t.Errorf("%+v, %v", got, err)
	}
}

// A rollback is of what clients had at a time, in every scope that the relay remembers (GATE-4).
func TestRollback_GATE4(t *testing.T) {
	plane := newPlaneServer(t, contents{"x": "1"})
	cfg := configOf(upstreamAt("a", plane.address))
	cfg.Upstreams[0].Settle = config.Duration(time.Millisecond)
	r := run(t, cfg)
	r.join("n").holds(contents{"x": "1"})
	for _, tt := range []struct{ body, reason string }{
		{`{}`, "expected a generation"},
		{`{"generation": 0, "at": "2026-01-02T03:04:05Z"}`, "expected a generation"},
		{`{"generation": 7}`, "does not remember"},
		{`{"generation": 0, "upstream": "a", "scope": "other"}`, "0 are selected"},
		{`{"at": "2026-01-02T03:04:05Z", "scope": "other"}`, "no such scope"},
		{`{"at": "2026-01-02T03:04:05Z", "types": ["eds"]}`, "endpoints cannot"},
		{`{"generation": 0, "for": "1m"}`, "for is for hold"},
	} {
		if code, answer := r.command("/rollback", tt.body); code != http.StatusBadRequest || !strings.Contains(answer, tt.reason) {
			t.Errorf("%s: %d %s", tt.body, code, answer)
		}
	}
	r.shows("/held", `"orders": []`)
	r.shows("/generations", `"number": 0`)
	r.shows("/metrics", "xdsrelay_cache_past_bytes 0\n")
	done := r.does("/rollback", `{"generation": 0, "types": ["cds", "rds"]}`)
	if len(done.Scopes) != 1 || done.Scopes[0].Error != "" || len(done.Warnings) != 1 {
		t.Errorf("%+v", done)
	}
	r.shows("/held", `"endpoints_flow": true`, "RouteConfiguration", `"why": "operator"`)
	if log := r.log.String(); !strings.Contains(log, "command=rollback") || !strings.Contains(log, "generation=0") {
		t.Errorf("the log has no line of it: %s", log)
	}
	r.does("/release", `{}`)
	r.shows("/held", `"orders": []`, `"held": []`)
	r.check()
}

// Scopes whose state is not remembered stay as they are, and are not held.
func TestRollbackAbout_GATE4(t *testing.T) {
	sessions := []*session{{key: sessionKey{plane: "a", scope: "1"}}, {key: sessionKey{plane: "a", scope: "2"}}}
	selectors := hold.Selectors{{Type: "t"}, {Type: "u"}}
	if got := about(selectors, sessions, &admin.Done{Scopes: make([]admin.DoneScope, 2)}); !reflect.DeepEqual(got, selectors) {
		t.Errorf("%+v", got)
	}
	got := about(selectors, sessions, &admin.Done{Scopes: []admin.DoneScope{{Error: "no"}, {}}})
	if want := (hold.Selectors{{Upstream: "a", Scope: new("2"), Type: "t"}, {Upstream: "a", Scope: new("2"), Type: "u"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
}
