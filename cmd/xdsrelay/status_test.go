package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	testplane "github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// crowd is a relay with clients, each of which has a fault of its own.
type crowd struct {
	replica

	stops map[string]func()
}

// join runs a client that asks for something.
func (f *crowd) join(t *testing.T, node string, reject func(*xdsclient.Response) error, typeURL string, names ...string) *xdsclient.Client {
	t.Helper()
	conn, err := grpc.NewClient(f.xds, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	c := xdsclient.New(xdsclient.Options{Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: reject})
	c.Subscribe(typeURL, names...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = c.Run(ctx) // ends with ctx
	}()
	stop := func() {
		cancel()
		<-done
		_ = conn.Close()
	}
	t.Cleanup(stop)
	if f.stops == nil {
		f.stops = make(map[string]func())
	}
	f.stops[node] = stop
	return c
}

// says waits until a command says something.
func (f *crowd) says(t *testing.T, code int, want []string, args ...string) {
	t.Helper()
	var got result
	missing := func() string {
		got = xdsrelay(t, append(args, "--admin", f.admin)...)
		for _, w := range want {
			if !strings.Contains(got.stdout+got.stderr, w) {
				return w
			}
		}
		return ""
	}
	if _, said := wait.Until(30*time.Second, func() bool { return missing() == "" }); !said || got.code != code {
		t.Fatalf("%v: code %d, want %d; %q is missing in\n%s%s", args, got.code, code, missing(), got.stdout, got.stderr)
	}
}

// What an operator asks at night: each fault is named, with the client, the type, the resource and the command
// that tells more.
func TestStatus(t *testing.T) {
	p := testplane.Start(t, testplane.Behaviour{})
	for i := range 30 {
		p.Set(cluster(fmt.Sprintf("c%d", i), 1))
	}
	f := &crowd{replica: serveReplica(t, p.Addr(), "")}
	f.says(t, 0, []string{"Well: 1 relay, no client is connected."}, "status")
	f.says(t, 0, []string{"No client rejects anything."}, "rejections")
	fine := f.join(t, "fine", nil, resource.ClusterType, "*")
	stopped := f.join(t, "stopped", nil, resource.ClusterType, "*")
	f.join(t, "rejecting", func(r *xdsclient.Response) error {
		for _, x := range r.Changes {
			if x.Name == "broken" && x.Version != "" {
				return errors.New("broken:\n" + strings.Repeat("  field {\n  }\n", 50) + ": broken has no endpoints")
			}
		}
		return nil
	}, resource.ClusterType, "*")
	f.join(t, "asking", nil, resource.EndpointType, "nobody")
	if _, asked := wait.Until(30*time.Second, func() bool { return len(p.Requests(resource.EndpointType)) > 0 }); !asked {
		t.Fatal("the control plane was not asked for a name")
	}
	for _, c := range []*xdsclient.Client{fine, stopped} {
		if err := c.Wait(t.Context(), func(c *xdsclient.Client) bool { return c.Len(resource.ClusterType) == 30 }); err != nil {
			t.Fatal(err)
		}
	}
	stopped.HoldAcks(true)
	p.Set(cluster("broken", 1))
	before := p.Version(resource.ClusterType)

	f.says(t, cli.ExitFailure, []string{
		"WRONG: 3 things.",
		`- Clients reject cds "broken" version `, ": broken has no endpoints\n", "1 client: rejecting", "next: xdsrelay rejections --type cds",
		"- Clients do not acknowledge type cds", "1 client: stopped", "next: xdsrelay clients stopped",
		`- Clients ask for eds "nobody", and the control plane a has not answered.`, "1 client: asking", "next: xdsrelay why asking eds nobody",
		"RELAY", f.admin, "a reached",
	}, "status")
	f.says(t, cli.ExitFailure, []string{`WRONG: Clients reject cds "broken"`, "} : broken has no endpoints. And 2 more: xdsrelay status.\n"}, "check")
	f.says(t, cli.ExitFailure, []string{"cds   broken ", "broken: field { }", ": broken has no endpoints\n", "rejecting"}, "rejections")
	f.says(t, 0, []string{"No client rejects anything."}, "rejections", "--type", "eds")
	f.says(t, 0, []string{"stopped", "behind", "ack", "rejecting", "asking", "name nobody"}, "clients", "--stale", "--sort", "lag")
	if got := xdsrelay(t, "clients", "--stale", "--admin", f.admin); strings.Contains(got.stdout, "fine") {
		t.Errorf("one that is current is stale:\n%s", got.stdout)
	}
	f.says(t, 0, []string{"broken", "NACKED", "c7", "ACKED"}, "clients", "rejecting")
	f.says(t, cli.ExitFailure, []string{`no client has the node "nobody"`}, "clients", "nobody")
	f.says(t, 0, []string{`The client asks for it by "*", and rejects version `, "broken has no endpoints", "from upstream a, scope ", "the relay has it: present"}, "why", "rejecting", "cds", "broken")
	f.says(t, 0, []string{"was sent version", "has not acknowledged it."}, "why", "stopped", "cds", "broken")
	f.says(t, 0, []string{"The client asks for it by its name, and the control plane has not answered."}, "why", "asking", "eds", "nobody")
	f.says(t, 0, []string{`The client asks for it by "*", and acknowledged version `}, "why", "fine", "cds", "c7")
	f.says(t, 0, []string{"The client asks for all of the type, and the relay does not have it"}, "why", "fine", "cds", "nothing")
	f.says(t, cli.ExitFailure, []string{`no client with the node "fine" asks for the type lds`}, "why", "fine", "lds", "x")

	f.says(t, 0, []string{"a         reached", "connected"}, "upstreams", "a")
	f.says(t, 0, []string{"isolated", "stopped", "otherwise", "RULE       CLIENTS  SCOPES  CLIENTS/SCOPE  FAILED\notherwise  4        4       1.0            0\n"}, "scopes", "-o", "wide")
	f.says(t, 0, []string{"cds   broken  present  31"}, "resources", "cds", "broken")

	p.Set(cluster("c7", 2))
	f.says(t, 0, []string{"cds   c7    8    32", "1       1     1         0", "1       1     0         0"}, "changes")
	f.says(t, 0, []string{`-   "connect_timeout": "1s"`, `+   "connect_timeout": "2s"`}, "changes", "--since", "1h", "--diff")
	f.says(t, 0, []string{"Nothing changed."}, "changes", "--type", "rds")
	f.says(t, 0, []string{"done in "}, "hold", "--yes", "--type", "rds")
	f.says(t, 0, []string{"released"}, "release", "--yes", "--type", "rds")
	f.says(t, 0, []string{" HOLD ", "RELEASE", "HOLD: upstream all, scope all, type rds, scopes: 4"}, "changes", "--type", "rds")
	f.says(t, cli.ExitFailure, []string{"1 of 3 clients have it (2 an older version or none, 1 version 31)", "1 client rejected it"}, "wait", "cds", "broken", "--share", "90%")
	f.says(t, cli.ExitFailure, []string{"not all have it in time"}, "wait", "cds", "broken", "--share", "60%", "--for", "1ms")
	f.says(t, 0, []string{"1 of 3 clients have it"}, "wait", "cds", "broken", "--share", "30%", "--version", "31")
	f.says(t, cli.ExitUsage, []string{"--share: expected 0% to 100%"}, "wait", "cds", "broken", "--share", "all")
	f.says(t, cli.ExitFailure, []string{"cds   broken  NACKED", "1 difference"}, "diff", "rejecting")
	f.says(t, cli.ExitFailure, []string{"cds   broken  STALE   -             31    31"}, "diff", "stopped")
	f.says(t, 0, []string{"The client acknowledged all that the relay has for it: 31 names."}, "diff", "fine")
	f.says(t, cli.ExitFailure, []string{"cds   broken  31    rejects 31"}, "diff", "fine", "rejecting")
	f.says(t, cli.ExitFailure, []string{"cds   broken  rejects 31  rejects 31\nBoth reject or lack the same in 1 name", "1 difference"}, "diff", "rejecting", "rejecting")
	f.says(t, cli.ExitFailure, []string{`no client has the node "x"`}, "diff", "fine", "x")
	bundled(t, f)

	f.stops["asking"]()
	f.says(t, 0, []string{"asking", "client", "Canceled"}, "clients", "--gone")
	stopped.HoldAcks(false)
	p.Remove(cluster("broken", 1))
	f.stops["stopped"]()
	f.says(t, 0, []string{"Well: 1 relay, 2 clients."}, "status")
	f.says(t, 0, []string{"No client rejects anything."}, "rejections")
	f.says(t, 0, []string{"well: 1 relay, 2 clients"}, "check")
	if before == p.Version(resource.ClusterType) {
		t.Error("the control plane changed nothing")
	}

	for i := range 29 {
		p.Remove(cluster(fmt.Sprintf("c%d", i), 1))
	}
	f.says(t, cli.ExitFailure, []string{"The control plane a removed ", " resources of type cds at once. Clients keep them until", "next: xdsrelay held --upstream a --type cds"}, "status")
	p.Stop()
	f.says(t, cli.ExitFailure, []string{"- The control plane a cannot be reached. Clients keep what they have."}, "status")

	var answers []jsonAnswer[admin.Status]
	got := xdsrelay(t, "status", "--admin", f.admin, "--output", "json")
	if err := json.Unmarshal([]byte(got.stdout), &answers); err != nil || got.code != cli.ExitFailure || len(answers) != 1 || answers[0].Answer.Well || answers[0].Answer.Problems[0].Kind != admin.UpstreamAway {
		t.Errorf("code %d, %v\n%s", got.code, err, got.stdout)
	}
	if got := xdsrelay(t, "status", "--admin", f.admin, "--output", "yaml"); !strings.Contains(got.stdout, "kind: upstream away") {
		t.Errorf("in YAML:\n%s", got.stdout)
	}
	f.stop()
	if got := xdsrelay(t, "status", "--admin", f.admin); got.code != cli.ExitUnreachable || !strings.Contains(got.stdout, "The relay "+f.admin+" FAILED: unreachable") {
		t.Errorf("without a relay: %+v", got)
	}
	if got := xdsrelay(t, "status", "nobody"); got.code != cli.ExitUsage {
		t.Errorf("with an argument: %+v", got)
	}
}

// Of several relays each line says which one it is about. One that is dead is the worst of what is wrong.
func TestStatusOfSeveralRelays(t *testing.T) {
	p := testplane.Start(t, testplane.Behaviour{})
	p.Set(cluster("c", 1))
	f, other := &crowd{replica: serveReplica(t, p.Addr(), "")}, serveReplica(t, p.Addr(), "")
	c := f.join(t, "n", nil, resource.ClusterType, "*")
	if err := c.Wait(t.Context(), func(c *xdsclient.Client) bool { return c.Len(resource.ClusterType) == 1 }); err != nil {
		t.Fatal(err)
	}
	both := []string{"--admin", other.admin}
	f.says(t, 0, []string{"Well: 2 relays, 1 client."}, append([]string{"status"}, both...)...)
	for _, args := range [][]string{{"upstreams"}, {"resources", "cds"}, {"scopes"}, {"clients"}} {
		f.says(t, 0, []string{"RELAY\n", f.admin + "\n"}, append(args, both...)...)
		if got := xdsrelay(t, append(args, "--admin", f.admin)...); strings.Contains(got.stdout, "RELAY") {
			t.Errorf("%v of one relay:\n%s", args, got.stdout)
		}
	}
	f.says(t, 0, []string{other.admin + "\n"}, append([]string{"upstreams", "a"}, both...)...)
	other.stop()
	f.says(t, cli.ExitUnreachable, []string{
		"WRONG: 1 thing.", "- The relay " + other.admin + " FAILED: unreachable", other.admin + "  FAILED  -", f.admin + "  yes     1", "1 of 2 relays failed",
	}, append([]string{"status"}, both...)...)
	f.says(t, cli.ExitUnreachable, []string{"WRONG: The relay " + other.admin + " FAILED"}, append([]string{"check"}, both...)...)
}

// The live fleet is recorded in a form that other commands read.
func TestNodes(t *testing.T) {
	p := testplane.Start(t, testplane.Behaviour{})
	p.Set(cluster("c", 1))
	f, other := &crowd{replica: serveReplica(t, p.Addr(), "")}, &crowd{replica: serveReplica(t, p.Addr(), "")}
	for _, node := range []string{"a", "b"} {
		for _, at := range []*crowd{f, other} {
			c := at.join(t, node, nil, resource.ClusterType, "*")
			if err := c.Wait(t.Context(), func(c *xdsclient.Client) bool { return c.Len(resource.ClusterType) == 1 }); err != nil {
				t.Fatal(err)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "fleet.jsonl")
	f.says(t, 0, []string{": 2 nodes of 2 relays\n"}, "nodes", file, "--admin", other.admin)
	if got := xdsrelay(t, "nodes", "--admin", f.admin); got.code != 0 || strings.Count(got.stdout, "\n") != 2 || !strings.Contains(got.stdout, `"id":"a"`) {
		t.Errorf("to standard output: %+v", got)
	}
	rules := write(t, "rules.yaml", good+`aggregation: {rules: [{name: r, match: 'true', scope: ['node.id']}]}`+"\n")
	if got := xdsrelay(t, "explain", "-c", rules, "--nodes", file); got.code != 0 || !strings.Contains(got.stdout, "2 clients, 2 served in 2 scopes") {
		t.Errorf("explain: %+v", got)
	}
	if got := xdsrelay(t, "compare", p.Addr(), f.xds, "--nodes", file); got.code != 0 || !strings.Contains(got.stdout, "equal in 2 of 2 nodes") {
		t.Errorf("compare: %+v", got)
	}
	who := write(t, "who.jsonl", `{"node":{"id":"x"},"peer":{"dns":["web"]}}`+"\n"+`{"node":{"id":"x"},"peer":{"dns":["shop"]}}`+"\n")
	byName := write(t, "names.yaml", good+`aggregation: {rules: [{name: r, match: 'true', scope: ['peer.dns[0]']}]}`+"\n")
	if got := xdsrelay(t, "explain", "-c", byName, "--nodes", who); got.code != 0 || !strings.Contains(got.stdout, "2 clients, 2 served in 2 scopes") {
		t.Errorf("explain with names of certificates: %+v", got)
	}
	other.stop()
	f.says(t, cli.ExitUnreachable, []string{"FAILED: unreachable", ": 2 nodes of 1 relay\n"}, "nodes", file, "--admin", other.admin)
	f.stop()
	f.says(t, cli.ExitUnreachable, []string{"FAILED: unreachable", "1 of 1 relays failed"}, "nodes", file)
	if kept, err := os.ReadFile(file); err != nil || strings.Count(string(kept), "\n") != 2 {
		t.Errorf("the file of before has %q, %v", kept, err)
	}
}

// A word that no relay knows is an error, and no empty table.
func TestUnknownWords(t *testing.T) {
	f := &crowd{replica: serveReplica(t, testplane.Start(t, testplane.Behaviour{}).Addr(), "")}
	const types = `unknown type "nosuch": expected a type URL or one of lds, `
	for _, args := range [][]string{
		{"resources", "nosuch"}, {"wait", "nosuch", "x"}, {"why", "n", "nosuch", "x"}, {"clients", "--type", "nosuch"}, {"rejections", "--type", "nosuch"},
		{"changes", "--type", "nosuch"}, {"diff", "n", "--type", "nosuch"}, {"hold", "--yes", "--type", "nosuch"}, {"held", "--type", "nosuch"}, {"rollback", "--type", "nosuch"},
	} {
		f.says(t, cli.ExitUsage, []string{types}, args...)
	}
	f.says(t, cli.ExitUsage, []string{"takes no argument"}, "scopes", "nosuch")
	f.says(t, cli.ExitFailure, []string{`no relay has an upstream "nope"`, "hint: there are: a\n"}, "upstreams", "nope")
	f.says(t, cli.ExitFailure, []string{`no relay has cds "nosuch"`, "hint: xdsrelay resources cds"}, "resources", "cds", "nosuch")
	f.says(t, 0, []string{"The relays have no resource of type rds."}, "resources", "rds")
	f.says(t, cli.ExitFailure, []string{`no client asks for cds "nosuch"`, "hint: xdsrelay resources cds"}, "wait", "cds", "nosuch", "--for", "1ms")
}

// bundled makes a bundle, and looks into it.
func bundled(t *testing.T, f *crowd) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	f.says(t, 0, []string{" bytes of 1 relay"}, "collect", file)
	data, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = data.Close() }()
	zip, err := gzip.NewReader(data)
	if err != nil {
		t.Fatal(err)
	}
	sizes := make(map[string]int64)
	archive := tar.NewReader(zip)
	for {
		head, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		sizes[filepath.Base(head.Name)] = head.Size
		text, err := io.ReadAll(archive)
		if err != nil || strings.Contains(string(text), `"connect_timeout"`) {
			t.Errorf("%s has a payload, or %v", head.Name, err)
		}
	}
	for name := range collected {
		if sizes[name] == 0 {
			t.Errorf("%s is missing or empty: %v", name, sizes)
		}
	}
}
