package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

// evil clears a terminal, colors it, forges a line, and writes backwards.
const evil = "evil\x1b[2J\u009b31m\r\nr:1: done\u202e"

// What clients and control planes send reaches no terminal as anything but text.
func TestPrintable_GATE4(t *testing.T) {
	scope := evil
	refuses := false
	now, detail := time.Now(), delivery.Detail{Name: evil, By: evil, Status: delivery.StatusNacked, Sent: evil, Cached: evil, Error: evil}
	client := downstream.Status{Node: evil, Peer: evil, Cluster: evil, SPIFFE: evil, Scope: evil, Types: map[string]downstream.TypeView{evil: {
		State: downstream.Rejecting, Held: evil, Sent: evil, Unanswered: []string{evil}, From: []downstream.Origin{{Upstream: evil, Scope: evil, Rule: evil}}, Names: []delivery.Detail{detail},
	}}}
	answers := map[string]any{
		"/status":  admin.Status{About: &admin.About{Version: evil, Hash: evil}, Problems: []admin.Problem{{Text: evil, Nodes: []string{evil}, Clients: 1, Next: evil}}, Upstreams: []admin.UpstreamStatus{{Name: evil, State: evil}}},
		"/clients": []downstream.Status{client}, "/gone": []downstream.Gone{{Status: client, Why: evil, Code: evil, Reason: evil}},
		"/rejections": []admin.Rejection{{TypeURL: evil, Resource: evil, Version: evil, Reason: evil, Nodes: []string{evil}, Clients: 1}},
		"/why":        []admin.Why{{Node: evil, Peer: evil, Sentence: evil, From: client.Types[evil].From, Cached: []admin.Resource{{Info: cache.Info{State: evil, Version: evil, Error: evil}}}}},
		"/changes":    admin.Changes{Changes: []admin.Change{{At: now, Scope: evil, TypeURL: evil, Name: evil, Old: evil, New: evil, Before: json.RawMessage(`{"a": "` + "\u009b" + `"}`)}}},
		"/reach":      admin.Reach{Spread: admin.Spread{Asking: 2, Accepted: 1, Others: []string{evil}}, Holding: map[string]int{evil: 1}},
		"/upstreams":  []admin.Upstream{{Name: evil, State: evil, Cause: evil, Sessions: []admin.Session{{Scope: evil, State: evil, Endpoint: evil, LastError: evil, Refused: map[string]string{evil: evil}}}}},
		"/scopes":     admin.Scopes{Result: &sharing.Result{Largest: []sharing.Scope{{Upstream: evil, Scope: evil, Rule: evil, First: evil, Unmentioned: []string{evil}, Failed: evil}}}},
		"/resources":  []admin.Resource{{Upstream: evil, Scope: evil, Info: cache.Info{TypeURL: evil, Name: evil, State: evil, Version: evil}}},
		"/held": admin.HeldPage{
			Orders: []admin.OrderView{{Upstream: evil, Scope: &scope, TypeURL: evil, Held: true, Since: time.Now()}, {Scope: &scope}},
			Held: []admin.HeldView{{
				Upstream: evil, Scope: evil, TypeURL: evil, Why: evil, Since: time.Now(),
				Names: []admin.HeldName{
					{Name: evil, Error: evil},
					{Name: evil, ReceivedVersion: evil, Received: json.RawMessage(`{"a": "` + "\u009b" + `"}`)},
					{Name: evil, ReceivedVersion: evil, ReleasedVersion: evil, Received: json.RawMessage(`{"a": "` + "\u009b" + `"}`), Released: json.RawMessage(`{}`)},
				},
			}},
		},
		"/hold":     admin.Done{Scopes: []admin.DoneScope{{Upstream: evil, Scope: evil, Error: evil}}, Warnings: []string{evil}},
		"/release":  admin.Done{Scopes: []admin.DoneScope{{Upstream: evil, Scope: evil, Error: evil}}, Warnings: []string{evil}},
		"/rollback": admin.Done{Scopes: []admin.DoneScope{{Upstream: evil, Scope: evil, Error: evil}}, Warnings: []string{evil}},
		"/generations": []admin.Generations{{Upstream: evil, Scope: evil, Generations: []cache.Generation{
			{Until: time.Now(), Changes: []cache.TypeChanges{{TypeURL: evil}}},
		}}},
	}
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		answer := answers[req.URL.Path]
		if req.URL.Query().Has("gone") {
			answer = answers["/gone"]
		}
		if refuses {
			w.WriteHeader(http.StatusBadRequest)
			answer = map[string]string{"error": evil}
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
	}))
	defer admin.Close()
	at := []string{"--admin", admin.Listener.Addr().String()}
	commands := [][]string{
		append([]string{"held"}, at...), append([]string{"hold", "--yes"}, at...), append([]string{"release", "--yes"}, at...),
		append([]string{"rollback", "--yes", "5m"}, at...), append([]string{"rollback"}, at...),
	}
	for _, line := range []string{
		"status", "check", "clients", "clients -o wide", "clients --gone", "rejections", "why n cds x", "changes", "changes --diff", "wait cds x --for 1ms", "wait cds x --share 50%",
		"upstreams", "scopes", "resources", "diff n", "diff n m",
	} {
		args := strings.Fields(line)
		for i := range args {
			if args[i] == "n" || args[i] == "m" {
				args[i] = evil
			}
		}
		commands = append(commands, append(args, at...))
	}
	for _, refuses = range []bool{false, true} {
		for _, args := range commands {
			harmless(t, args...)
		}
	}

	odd := func(s string) string { return strings.ReplaceAll(s, "EVIL", strconv.QuoteToASCII(evil)) } // YAML has these escapes
	file := write(t, "x.yaml", good)
	rules := write(t, "rules.yaml", good+`aggregation: {rules: [{name: r, match: "true", scope: ["node.id"]}]}`+"\n")
	node := write(t, "node.yaml", odd(`{id: EVIL, cluster: EVIL, metadata: {EVIL: EVIL}}`))
	bad := write(t, "bad.yaml", odd(`{EVIL: 1}`))
	harmless(t, "explain", "-c", rules, "--node", node)
	harmless(t, "explain", "-c", rules, "--node", node, "--type", "cds", "--name", evil)
	harmless(t, "explain", "-c", rules, "--nodes", node)
	harmless(t, "explain", "-c", file, "--node", bad)
	harmless(t, "explain", "-c", file, "--nodes", bad)
	harmless(t, "validate", write(t, "key.yaml", odd(good+"EVIL: 1\n")))
	harmless(t, "validate", write(t, "enum.yaml", odd(good+"log: {level: EVIL}\n")))
	harmless(t, "validate", write(t, "name.yaml", odd("upstreams:\n  - {name: EVIL, default: true, endpoints: [\"a:1\"]}\n")))
	harmless(t, "validate", write(t, "rule.yaml", odd(good+"aggregation: {rules: [{name: EVIL, match: EVIL, scope: [EVIL]}]}\n")))

	dir := t.TempDir()
	folder, err := snapshot.Open(files.OS{}, dir)
	if err != nil {
		t.Fatal(err)
	}
	h := &snapshot.Header{ID: snapshot.ID("a"), Upstream: evil, Scope: evil, Written: time.Now(), AsOf: time.Now()}
	if _, err := folder.Save(h, &cache.Image{Tables: []cache.TableImage{{TypeURL: evil, Collections: []string{"*"}}}}); err != nil {
		t.Fatal(err)
	}
	if err := folder.Close(); err != nil {
		t.Fatal(err)
	}
	harmless(t, "cache", "inspect", dir)

	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{evil: cluster(evil, 1)}))
	address := controlPlane(t, linear, nil)
	harmless(t, "watch", address, "--type", "cds", "--once", "--payload")
	harmless(t, "watch", address, "--type", "cds", "--name", evil, "--once")
}

// harmless carries out a command line and looks at every character that it writes.
func harmless(t *testing.T, args ...string) {
	t.Helper()
	got := xdsrelay(t, args...)
	text := got.stdout + got.stderr
	if !strings.Contains(text, "evil") {
		t.Errorf("%q does not show the name: %+v", args, got)
	}
	if strings.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) && r != '\n' && r != '\t' }) >= 0 || strings.Contains(text, "\nr:1: done") {
		t.Errorf("%q: exit code %d, %q", args, got.code, text)
	}
}
