package explain_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/explain"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
	"github.com/xdsrelay/xdsrelay/relay/sharing"
)

const clusterURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"

func explainer(t testing.TB, aggregation string) *explain.Explainer {
	t.Helper()
	cfg, err := config.Parse("relay.yaml", []byte("upstreams: [{name: primary, default: true, endpoints: [127.0.0.1:1]}]\n"+aggregation))
	if err != nil {
		t.Fatal(err)
	}
	e, err := explain.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func ExampleExplainer_Client() {
	cfg, err := config.Parse("relay.yaml", []byte(`
upstreams: [{name: primary, default: true, endpoints: [127.0.0.1:5678]}]
aggregation:
  rules: [{name: clusters, match: type == cds, scope: [node.cluster]}]
`))
	if err != nil {
		panic(err)
	}
	e, err := explain.New(cfg)
	if err != nil {
		panic(err)
	}
	c := e.Client(&corev3.Node{Id: "web-1", Cluster: "web"}, keyer.Peer{}, []string{clusterURL}, nil)
	if err := c.Text(os.Stdout, false); err != nil {
		panic(err)
	}
	// Output:
	// node      web-1
	// type      cds (type.googleapis.com/envoy.config.cluster.v3.Cluster)
	// outcome   shared: with all clients for which rule clusters gives the same parts
	//
	// rules
	//   clusters   matches  type == cds is true: type is cds
	//
	// scope     clusters["web"]
	// parts     scope[0]: node.cluster = "web"
	// upstream  primary (the default)
	//
	// node upstream
	//   client_features:
	//     - xds.config.resource-in-sotw
	//     - xds.config.supports-resource-in-sotw
	//     - xds.config.supports-resource-ttl
	//   cluster: web
	//   id: xdsrelay~*~84a7b44d2b74
	//   user_agent_name: xdsrelay
}

// A terminal is shown colors, and nothing that a node brings can be taken for them.
func TestText_AGG5(t *testing.T) {
	hostile := &corev3.Node{Id: "a\x1b[2J", Cluster: "c\nd"}
	for _, tt := range []struct {
		name, aggregation, color string
	}{
		{"shared", `aggregation: {rules: [{name: all, match: "true", scope: [node.cluster]}]}`, "\x1b[32mshared"},
		{"failed", `aggregation: {rules: [{name: all, match: node.metadata.x == "y", scope: []}]}`, "\x1b[33mfailed"},
		{"refused", `aggregation: {otherwise: refuse}`, "\x1b[31mrefused"},
	} {
		c := explainer(t, tt.aggregation).Client(hostile, keyer.Peer{}, []string{clusterURL}, nil)
		for _, color := range []bool{false, true} {
			var b bytes.Buffer
			if err := c.Text(&b, color); err != nil {
				t.Fatal(err)
			}
			if color != strings.Contains(b.String(), tt.color) || strings.Contains(b.String(), "\x1b[2J") {
				t.Errorf("AGG-5: %s, colors %t: %q", tt.name, color, b.String())
			}
		}
	}
}

// Totals tell of everything, lists of the most.
func TestFleetText_AGG5(t *testing.T) {
	s := sharing.NewSurvey(sharing.Options{Rules: []string{"r"}, Policy: rules.Isolate})
	for i := range 25 {
		d := rules.Decision{Rule: "r", Scope: fmt.Sprintf("r[%02d]", i), Failed: fmt.Errorf("reason %02d", i)}
		s.Add(fmt.Sprintf("node-%02d", i), sharing.Placement{TypeURL: clusterURL, Upstream: "primary", Decision: d})
	}
	var b bytes.Buffer
	if err := explain.FleetText(&b, s.Result(1000), false); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"25 clients, 25 served in 25 scopes: 1.0 for each stream upstream\n25 scopes with one client, 25 isolated",
		"\nlargest scopes, 10 of 25\n", "\nwith one client, 10 of 25\n",
		"\nrules that fail (the relay isolates these clients), 10 of 25\n  1 client, for instance node-00: r: reason 00\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("AGG-5: lacks %q:\n%s", want, b.String())
		}
	}
	if strings.Contains(b.String(), "reason 10") {
		t.Errorf("AGG-5: too long:\n%s", b.String())
	}
}

// slow takes its time for each read.
type slow struct {
	io.Reader

	delay time.Duration
}

func (s slow) Read(p []byte) (int, error) {
	<-time.After(s.delay)
	return s.Reader.Read(p)
}

// Whoever waits is told how far it is, and may stop it.
func TestFleet_AGG5(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := explainer(t, "")
		var errs bytes.Buffer
		in := slow{strings.NewReader("{\"id\":\"a\"}\n{\"idd\":\"b\"}\n"), 3 * time.Second}
		s, err := e.Fleet(t.Context(), "-", in, &errs, keyer.Peer{}, []string{clusterURL}, nil)
		if !errors.Is(err, explain.ErrBadNodes) || err.Error() != "1 node could not be read" || s.Result(1).Clients != 1 {
			t.Errorf("AGG-5: %v", err)
		}
		if got, want := errs.String(), "1 nodes so far, in standard input\nstandard input:2:2: unknown field \"idd\"\n"; got != want {
			t.Errorf("AGG-5: progress %q, want %q", got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if s, err := e.Fleet(ctx, "-", strings.NewReader("{}"), &errs, keyer.Peer{}, nil, nil); s != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("AGG-5: stopped with %v", err)
		}
	})
}
