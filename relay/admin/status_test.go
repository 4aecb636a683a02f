package admin_test

import (
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/relay/admin"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
	"github.com/xdsrelay/xdsrelay/upstream"
)

const clusterType = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

// faulty is a relay with faults.
type faulty struct {
	state

	about     admin.About
	upstreams []admin.Upstream
	held      admin.HeldPage
	failures  []sharing.Case
	clients   []downstream.Status
}

func (f *faulty) About() *admin.About         { return &f.about }
func (f *faulty) Upstreams() []admin.Upstream { return f.upstreams }
func (f *faulty) Scopes(admin.ScopeFilter) *admin.Scopes {
	return &admin.Scopes{Result: &sharing.Result{Failures: f.failures}}
}
func (f *faulty) Held(*admin.Command) (*admin.HeldPage, error)                   { return &f.held, nil }
func (f *faulty) Clients(func(string) bool, delivery.Wanted) []downstream.Status { return f.clients }

func TestNewStatus(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	before := now.Add(-time.Hour)
	client := func(node string, v downstream.TypeView) downstream.Status {
		v.From = []downstream.Origin{{Upstream: "u"}}
		return downstream.Status{Node: node, Since: before, Types: map[string]downstream.TypeView{clusterType: v}}
	}
	reached := admin.Upstream{Name: "u", State: "reached", LastAnswer: now}
	for _, tt := range []struct {
		name string
		of   faulty
		kind admin.Kind // "": all is well
		text string
		next string
	}{
		{name: "all is well", of: faulty{upstreams: []admin.Upstream{reached}, clients: []downstream.Status{client("n", downstream.TypeView{State: downstream.Current})}}},
		{"SUR-5 not ready", faulty{about: admin.About{Reason: "not listening yet"}}, admin.NotReady, "not listening yet", "xdsrelay upstreams"},
		{"SUR-2 a control plane that is mute", faulty{upstreams: []admin.Upstream{{Name: "u", State: "mute", Unanswered: before}}}, admin.UpstreamAway, "u can be reached and does not answer", "xdsrelay upstreams u"},
		{name: "SUR-8 one that is silent of a name and answers others", of: faulty{upstreams: []admin.Upstream{{Name: "u", State: "mute", Unanswered: before, LastAnswer: now}}}},
		{"ABS-2 one that is away", faulty{upstreams: []admin.Upstream{{Name: "u", State: "unreachable", Cause: "connection refused"}}}, admin.UpstreamAway, "cannot be reached. Clients keep what they have. connection refused", ""},
		{"SUR-2 one that answers in six seconds", faulty{upstreams: []admin.Upstream{{Name: "u", State: "reached", LastAnswer: now, Answers: admin.NewAnswers([]upstream.Took{{At: now, For: 6 * time.Second}}, now)}}}, admin.UpstreamSlow, "took 6.0 s or more", ""},
		{"SUR-2 one that owes an answer", faulty{upstreams: []admin.Upstream{{Name: "u", State: "reached", LastAnswer: before, Unanswered: now.Add(-2 * time.Second)}}}, admin.UpstreamSlow, "u can be reached, and has said nothing since it was asked something", ""},
		{"SUR-2 one that hangs when something new is asked for", faulty{upstreams: []admin.Upstream{{Name: "u", State: "reached", LastAnswer: before, Open: now.Add(-2 * time.Second)}}}, admin.UpstreamSlow, "has said nothing since it was asked something", "xdsrelay upstreams u"},
		{name: "SUR-8 one that has nothing to say of a name and answers others", of: faulty{upstreams: []admin.Upstream{{Name: "u", State: "reached", LastAnswer: now, Open: before}}}},
		{"SUR-3 one that lost its resources", faulty{held: admin.HeldPage{Held: []admin.HeldView{{Upstream: "u", TypeURL: clusterType, Why: "guard", Removed: 40, Until: now}}}}, admin.Emptied, "removed 40 resources of type cds at once", "xdsrelay held --upstream u --type cds"},
		{"GATE-4 what an operator holds", faulty{held: admin.HeldPage{Orders: []admin.OrderView{{TypeURL: clusterType, Upstream: "u", Held: true}, {TypeURL: "t"}}, Held: []admin.HeldView{{Why: "operator"}}}},
			admin.HeldByHand, "An operator holds what clients get: type cds of u.", "xdsrelay held --type cds --upstream u"},
		{"VAR-6 a file that cannot be used", faulty{upstreams: []admin.Upstream{{Name: "u", State: "reached", Path: "x", Unusable: []string{"x/a.yaml: line 3: bad"}}}}, admin.FilesBroken, "Files of u that cannot be used: 1. Clients keep what these had before. x/a.yaml: line 3: bad", "xdsrelay upstreams u"},
		{"AGG-1 a wrong rule", faulty{failures: []sharing.Case{{Rule: "zones", Reason: "no such key: zone", Clients: 3, Example: "n"}}}, admin.RuleFails, "rule zones fails for clients: no such key: zone.", "xdsrelay nodes | xdsrelay explain --nodes - --config"},
		{"ACK-3 a client that rejects one of several", faulty{clients: []downstream.Status{client("n", downstream.TypeView{
			TypeStatus: downstream.TypeStatus{LastNack: &downstream.Nack{Message: "bad", At: now}}, State: downstream.Rejecting,
			Rejects: []delivery.Rejected{{Name: "a"}, {Name: "b"}},
		})}}, admin.RejectsIt, "reject a response of type cds (one or more of a, b): bad", "xdsrelay rejections --type cds"},
		{"ADS-2 a client with an old version", faulty{clients: []downstream.Status{client("n", downstream.TypeView{State: downstream.Behind, WaitsFor: delivery.WaitsForACK, BehindSince: before, Sent: "2", Held: "1"})}},
			admin.Unacked, "do not acknowledge type cds version 2, and still have version 1.", "xdsrelay clients n"},
		{name: "ADS-2 a client that is about to acknowledge", of: faulty{clients: []downstream.Status{client("n", downstream.TypeView{State: downstream.Behind, WaitsFor: delivery.WaitsForACK, BehindSince: now.Add(-time.Second)})}}},
		{"SUR-8 a name that nobody serves", faulty{clients: []downstream.Status{client("n", downstream.TypeView{State: downstream.Waiting, WaitsFor: delivery.WaitsForName, Unanswered: []string{"x"}})}}, admin.NameUnknown, `ask for cds "x", and the control plane u has not answered`, "xdsrelay why n cds x"},
		{"SUR-8 a name that a shell takes for something else", faulty{clients: []downstream.Status{client("n m", downstream.TypeView{State: downstream.Waiting, WaitsFor: delivery.WaitsForName, Unanswered: []string{"*"}})}}, admin.NameUnknown, `ask for cds "*", and`, "xdsrelay why 'n m' cds '*'"},
		{"SUR-8 a name that a command takes for a flag, and a terminal for a command", faulty{clients: []downstream.Status{client("-n", downstream.TypeView{State: downstream.Waiting, WaitsFor: delivery.WaitsForName, Unanswered: []string{"\x1b[2J\xff'é"}})}}, admin.NameUnknown, `and the control plane u has not answered`, `xdsrelay why -- -n cds $'\x1b[2J\xff\'é'`},
		{"RES-6 a name that does not exist", faulty{clients: []downstream.Status{client("n", downstream.TypeView{State: downstream.Current, Missing: []string{"x"}})}}, admin.NameMissing, `"x", which does not exist`, "xdsrelay why n cds x"},
		{"a certificate that expired", faulty{about: admin.About{Certificates: []admin.Certificate{{Key: "server.tls.cert_file", File: "a.crt", Expires: before}}}}, admin.Certificates, "of server.tls.cert_file expired at 2026-01-02T02:04:05Z", "renew a.crt"},
		{"a certificate that is near its end", faulty{about: admin.About{Certificates: []admin.Certificate{{Key: "k", From: now.Add(-90 * 24 * time.Hour), Expires: now.Add(24 * time.Hour)}}}}, admin.Certificates, "expires at 2026-01-03T03:04:05Z", ""},
		{name: "a certificate that lives for an hour, and was just renewed", of: faulty{about: admin.About{Certificates: []admin.Certificate{{From: now, Expires: now.Add(time.Hour)}}}}},
		{name: "a new relay that has no client yet", of: faulty{upstreams: []admin.Upstream{reached}}},
		{name: "a client that went just now", of: faulty{about: admin.About{LastGone: now.Add(-time.Second)}}},
		{"a fleet that is gone", faulty{about: admin.About{LastGone: before}}, admin.NoClients, "No client is connected: all that were there are gone.", "xdsrelay clients --gone"},
		{"a reload that failed", faulty{about: admin.About{Failed: "x.yaml:3: no such key", File: "x.yaml"}}, admin.ReloadFailed, "x.yaml:3: no such key", "xdsrelay validate x.yaml"},
		{"ACC-5 a reload that would refuse clients", faulty{about: admin.About{Failed: "it would refuse 2 of 3", Refuses: true, File: "x.yaml"}}, admin.ReloadFailed, "it would refuse 2 of 3", "xdsrelay reload --dry-run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.of.about.Ready = tt.of.about.Reason == ""
			s := admin.NewStatus(&tt.of, now)
			switch {
			case s.Well != (tt.kind == ""), len(s.Problems) > 1:
				t.Fatalf("got %+v", s.Problems)
			case s.Well:
				return
			}
			if p := s.Problems[0]; p.Kind != tt.kind || !strings.Contains(p.Text, tt.text) || !strings.HasPrefix(p.Next, tt.next) {
				t.Errorf("got %+v", p)
			}
		})
	}
}
