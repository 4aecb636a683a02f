package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// ask gets a page of a relay.
func ask(t *testing.T, of admin.State, path string, to any) {
	t.Helper()
	mux := http.NewServeMux()
	(&admin.Pages{State: of, Commands: state{}}).Handle(mux)
	w := httptest.NewRecorder()
	mux.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
	if err := json.Unmarshal(w.Body.Bytes(), to); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s, %v", path, w.Code, w.Body, err)
	}
}

func TestRejections_ACK7(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	client := func(node, reason string, state downstream.ClientState, after time.Duration, rejects ...delivery.Rejected) downstream.Status {
		return downstream.Status{Node: node, Types: map[string]downstream.TypeView{clusterType: {
			TypeStatus: downstream.TypeStatus{LastNack: &downstream.Nack{At: at.Add(after), Message: reason}}, State: state, Rejects: rejects,
			From: []downstream.Origin{{Upstream: "u", Scope: "s"}},
		}}}
	}
	of := &faulty{clients: []downstream.Status{
		client("a", "bad", downstream.Rejecting, time.Minute, delivery.Rejected{Name: "x", Version: "1", Alone: true}),
		client("b", "bad", downstream.Rejecting, 0, delivery.Rejected{Name: "x", Version: "1", Alone: true}),
		client("c", "worse", downstream.Rejecting, 0, delivery.Rejected{Name: "y"}, delivery.Rejected{Name: "z"}),
		client("solved", "was bad", downstream.Current, 0),
		client("unknown", "odd", downstream.Rejecting, 0),
	}}
	var got []admin.Rejection
	ask(t, of, "/rejections", &got)
	var lines []string
	for _, r := range got {
		lines = append(lines, fmt.Sprintf("%s@%s alone:%t %s %d%v %s %s/%s", r.Resource, r.Version, r.Alone, r.Reason, r.Clients, r.Nodes, r.Since.Format(time.TimeOnly), r.Upstream, r.Scope))
	}
	want := []string{
		"x@1 alone:true bad 2[a b] 03:04:05 u/s",
		"@ alone:false odd 1[unknown] 03:04:05 u/s",
		"y@ alone:false worse 1[c] 03:04:05 u/s",
		"z@ alone:false worse 1[c] 03:04:05 u/s",
	}
	if fmt.Sprintf("%q", lines) != fmt.Sprintf("%q", want) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
	ask(t, of, "/rejections?type=eds", &got)
	if len(got) != 0 {
		t.Errorf("of another type: %v", got)
	}
}

// changing is a relay where something changed.
type changing struct {
	faulty

	changes []admin.Change
}

func (c *changing) Changes(time.Time, delivery.Wanted) *admin.Changes {
	return &admin.Changes{Changes: c.changes}
}

func TestChangesPage(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	client := func(node, scope, status string) downstream.Status {
		return downstream.Status{Node: node, Types: map[string]downstream.TypeView{clusterType: {
			From: []downstream.Origin{{Upstream: "u", Scope: scope}}, Names: []delivery.Detail{{Name: "x", Status: status, Sent: "2", Cached: "2"}},
		}}}
	}
	lost := func(node string, waits delivery.Wait, byName bool) downstream.Status {
		v := downstream.TypeView{From: []downstream.Origin{{Upstream: "u", Scope: "other"}}, WaitsFor: waits, Wildcard: !byName}
		if byName {
			v.Names = []delivery.Detail{{Name: "x", Status: delivery.StatusMissing}}
		}
		return downstream.Status{Node: node, Types: map[string]downstream.TypeView{clusterType: v}}
	}
	change := func(scope, was, is string, after time.Duration) admin.Change {
		return admin.Change{At: at.Add(after), Upstream: "u", Scope: scope, TypeURL: clusterType, Name: "x", Old: was, New: is}
	}
	of := &changing{
		faulty: faulty{clients: []downstream.Status{
			client("a", "s", delivery.StatusAcked), client("b", "s", delivery.StatusNacked), client("c", "s", delivery.StatusStale),
			lost("d", delivery.WaitsForNothing, true), lost("e", delivery.WaitsForACK, true), lost("f", delivery.WaitsForTurn, false),
		}},
		changes: []admin.Change{change("s", "0", "1", 0), change("s", "1", "2", time.Minute), change("other", "1", "", 0), change("other", "0", "1", -time.Minute)},
	}
	var got admin.Changes
	ask(t, of, "/changes?since=1h", &got)
	if len(got.Changes) != 4 || got.Changes[0].New != "2" || got.Changes[1].Clients != nil || got.Changes[2].Clients == nil || got.Changes[3].Clients != nil {
		t.Fatalf("got %+v", got)
	}
	if s := got.Changes[2].Clients; s == nil || fmt.Sprint(*s) != "{3 2 1 0  [e f]}" {
		t.Errorf("the removal is at %+v", s)
	}
	if s := got.Changes[0].Clients; s == nil || fmt.Sprint(*s) != "{3 3 1 1 2 [b c]}" {
		t.Errorf("the last change is at %+v", s)
	}
}
