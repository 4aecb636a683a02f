package integration

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/downstream"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// browser is the page of the admin port in a real browser (testdata/page/look.mjs).
type browser struct {
	t    *testing.T
	out  *bufio.Scanner
	in   io.Writer
	last json.RawMessage
}

// startBrowser starts it. Without the variable XDSRELAY_CHROMIUM the test is skipped: integration/page.sh installs one.
func startBrowser(t *testing.T, address, screenshots string) *browser {
	t.Helper()
	chromium := os.Getenv("XDSRELAY_CHROMIUM")
	if chromium == "" {
		t.Skip("XDSRELAY_CHROMIUM names no browser: integration/page.sh installs one and runs this test")
	}
	cmd := exec.CommandContext(t.Context(), "node", "look.mjs", address, chromium, screenshots)
	cmd.Dir, cmd.Stderr = filepath.Join("testdata", "page"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() }) // it ends with its input
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	return &browser{t: t, out: lines, in: in}
}

// step reads what the browser found in a step.
func (b *browser) step(name string, into any) {
	b.t.Helper()
	var line struct {
		Step       string          `json:"step"`
		Value      json.RawMessage `json:"value"`
		Complaints []string        `json:"complaints"`
	}
	if !b.out.Scan() {
		b.t.Fatalf("the browser ended before %q: %v", name, b.out.Err())
	}
	if err := json.Unmarshal(b.out.Bytes(), &line); err != nil || line.Step != name {
		b.t.Fatalf("the browser says %s, %v, want step %q", b.out.Bytes(), err, name)
	}
	if len(line.Complaints) > 0 {
		b.t.Errorf("%s: the browser complains: %q", name, line.Complaints)
	}
	b.last = line.Value
	if into != nil {
		if err := json.Unmarshal(line.Value, into); err != nil {
			b.t.Fatalf("%s: %s: %v", name, line.Value, err)
		}
	}
}

// until has the browser look again until it shows what it should, and go on then. is reports what it shows, and what it should.
func (b *browser) until(step string, is func() (any, bool)) {
	b.t.Helper()
	for end := time.Now().Add(patience); ; b.say("again") {
		seen, ok := is()
		if ok {
			b.say("next")
			return
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s: the page shows, and the port says: %q", step, seen)
		}
	}
}

// say lets the browser go on.
func (b *browser) say(word string) {
	b.t.Helper()
	if _, err := fmt.Fprintln(b.in, word); err != nil {
		b.t.Fatal(err)
	}
}

func clusterOf(name string) plane.Resource { return clusterAt(name, "1") }

func clusterAt(name, version string) plane.Resource {
	return plane.Resource{Name: name, TypeURL: clusterType, Payload: &anypb.Any{TypeUrl: clusterType, Value: contents(clusterType, name, version, "")}}
}

// overview is what the browser sees first.
type overview struct {
	Verdict  string
	Problems []string
}

// names reports whether a problem has all of these words.
func (o *overview) names(words ...string) bool {
	return slices.ContainsFunc(o.Problems, func(p string) bool {
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(p, w) })
	})
}

func rejectAll(*xdsclient.Response) error { return errors.New("no such <i>filter</i>") }

// follow has a client ask for something until it leaves.
func follow(t *testing.T, r *testRelay, node string, judge func(*xdsclient.Response) error, typeURL string, names ...string) (_ *xdsclient.Client, leave func()) {
	t.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+r.addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	c := xdsclient.New(xdsclient.Options{Form: xdsclient.Incremental, Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: judge})
	c.Subscribe(typeURL, names...)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { _ = c.Follow(ctx, xdsclient.Backoff{}, nil); close(done) }() // ends with leave
	leave = func() { cancel(); <-done; _ = conn.Close() }
	t.Cleanup(leave)
	return c, leave
}

// Operators find in a browser what is wrong, without knowing what they look for: a client that rejects, and one that waits
// for a name that nobody serves. What is shown is what the admin port says, and changes by itself.
func TestPage_ACC7_ACK7_SUR8(t *testing.T) {
	screenshots := t.TempDir()
	if to := os.Getenv("XDSRELAY_SCREENSHOTS"); to != "" {
		screenshots = to
	}
	p := newPlane(t)
	p.Apply(plane.Change{Set: []plane.Resource{clusterOf("shop")}})
	r := startRelay(t, nil, p.addr)
	follow(t, r, "good-<b>1</b>", nil, clusterType)
	b := startBrowser(t, r.admin, screenshots)
	var path string
	if b.step("path", &path); path != "/ui/" {
		t.Errorf("the front page leads to %q", path)
	}
	b.say("next")

	until := func(what string, is func(*overview) bool) {
		t.Helper()
		for end := time.Now().Add(patience); ; b.say("again") {
			var seen overview
			if b.step("overview", &seen); is(&seen) {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: the page shows %+v", what, seen)
			}
		}
	}
	until("before", func(o *overview) bool { return o.Verdict == "All is well" })
	b.say("again")
	follow(t, r, "rejecting", rejectAll, clusterType)
	_, gone := follow(t, r, "waiting", nil, endpointType, "nobody")
	until("both problems", func(o *overview) bool {
		return o.names("rejecting", "no such <i>filter</i>") && o.names("waiting", "nobody") && o.Verdict == "2 problems"
	})
	b.say("again")
	gone()
	until("one has gone", func(o *overview) bool { return o.Verdict == "1 problem" && o.names("rejecting") })
	b.say("next")

	var client struct {
		Node, Text string
		States     []string
	}
	b.step("client", &client)
	if client.Node != "rejecting" || !slices.Contains(client.States, "rejecting") || !strings.Contains(client.Text, "no such <i>filter</i>") || !strings.Contains(client.Text, "shop") {
		t.Errorf("the page of the client has %+v", client)
	}
	b.say("next")
	var table [][]string
	b.step("rejections", &table)
	if len(table) == 0 || !strings.Contains(strings.Join(table[0], "|"), "no such <i>filter</i>") {
		t.Errorf("the rejections are %q", table)
	}
	b.say("next")
	b.until("clients", func() (any, bool) {
		b.step("clients", &table)
		want := clientRows(adminGet[[]downstream.Status](t, r, "/clients"))
		return [2]any{table, want}, len(want) == 2 && slices.EqualFunc(table, want, sameRow)
	})
	b.step("upstreams", nil)
	if !strings.Contains(string(b.last), "plane-0") {
		t.Errorf("the upstreams are %s", b.last)
	}
	b.say("next")
	b.until("resources", func() (any, bool) {
		b.step("resources", &table)
		want := resourceRows(adminGet[[]admin.Resource](t, r, "/resources?type=cds"))
		return [2]any{table, want}, len(want) > 0 && slices.EqualFunc(table, want, sameRow)
	})
	b.until("search", func() (any, bool) {
		var found struct{ Clients, Resources [][]string }
		b.step("search", &found)
		clients := clientRows(adminGet[[]downstream.Status](t, r, "/clients?search=o"))
		resources := resourceRows(adminGet[[]admin.Resource](t, r, "/resources?search=o"))
		return [2]any{found, resources}, len(clients) == 1 && len(resources) > 0 &&
			slices.EqualFunc(found.Clients, clients, sameRow) && slices.EqualFunc(found.Resources, resources, sameRow)
	})
	p.Apply(plane.Change{Set: []plane.Resource{clusterAt("shop", "2")}})
	b.until("changes", func() (any, bool) {
		b.step("changes", &table)
		want := changeRows(adminGet[admin.Changes](t, r, "/changes"))
		return [2]any{table, want}, len(want) > 0 && want[0][4] != "" && want[0][3] != "" && slices.EqualFunc(table, want, sameRow)
	})
	var lines []string
	b.step("difference", &lines)
	if len(lines) != 2 || !strings.HasPrefix(lines[0], "- ") || !strings.HasPrefix(lines[1], "+ ") || !strings.Contains(lines[0], "1") || !strings.Contains(lines[1], "2") {
		t.Errorf("the difference is %q", lines)
	}
	b.say("next")
	b.step("done", nil)
	b.say("next")
}

// adminGet is the JSON of a page of the admin port.
func adminGet[T any](t *testing.T, r *testRelay, path string) (v T) {
	t.Helper()
	decode(t, r, path, &v)
	return v
}

// sameRow compares a row of a table with what it is to show. Where that is "…", it depends on the time.
func sameRow(shown, want []string) bool {
	return slices.EqualFunc(shown, want, func(a, b string) bool { return b == "…" || a == b })
}

func clientRows(all []downstream.Status) (rows [][]string) {
	for _, c := range all {
		worst, waits := downstream.Current, ""
		for _, v := range c.Types {
			worst, waits = v.State, string(v.WaitsFor) // the clients of this test have one type
		}
		rows = append(rows, []string{c.Node, string(worst), waits, c.Variant, c.Peer, "…", c.Scope})
	}
	return rows
}

func resourceRows(all []admin.Resource) (rows [][]string) {
	for _, x := range all {
		rows = append(rows, []string{x.Name, x.TypeURL[strings.LastIndexByte(x.TypeURL, '.')+1:], x.State, x.Version, "…", fmt.Sprint(x.Watchers), x.Upstream, x.Scope})
	}
	return rows
}

func changeRows(v admin.Changes) (rows [][]string) {
	for _, c := range v.Changes {
		row := []string{c.At.UTC().Format("01-02 15:04:05"), c.TypeURL[strings.LastIndexByte(c.TypeURL, '.')+1:], c.Name, c.Old, cmp.Or(c.New, "gone"), "", "", "", "", c.Scope}
		if s := c.Clients; s != nil {
			row[5], row[6], row[7], row[8] = fmt.Sprint(s.Asking), fmt.Sprint(s.Sent), fmt.Sprint(s.Accepted), fmt.Sprint(s.Rejected)
		}
		rows = append(rows, row)
	}
	return rows
}

// slowly is a stream of a control plane that takes its time.
type slowly struct {
	grpc.ServerStream
}

// SendMsg implements grpc.ServerStream.
func (s slowly) SendMsg(m any) error {
	select {
	case <-time.After(6 * time.Second):
	case <-s.Context().Done():
	}
	return s.ServerStream.SendMsg(m)
}

// The page names eight faults at once, to a browser that knows none of them: a client that has stopped, one that rejects, one on
// an old version, one that asks for a name that nobody serves, a control plane that answers in six seconds, one that lost its
// resources, a rule that fails, and a certificate that has run out.
func TestPageNamesFaults_ACC7_ACK7_SUR2_SUR3_SUR8_AGG2(t *testing.T) {
	authority, dir := pki.NewAuthority(t, "control planes"), pki.NewFolder(t)
	slow := newPlane(t, grpc.Creds(credentials.NewTLS(&tls.Config{Certificates: []tls.Certificate{authority.Server(planeHost)}})),
		grpc.StreamInterceptor(func(srv any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(srv, slowly{s})
		}))
	const slowName = "xdstp://slow/envoy.config.cluster.v3.Cluster/x"
	slow.Apply(plane.Change{Set: []plane.Resource{clusterOf(slowName)}})
	p := newPlane(t)
	fill := plane.Change{Set: []plane.Resource{clusterOf("shop")}}
	var all plane.Change
	for i := range 30 {
		x := plane.Resource{Name: fmt.Sprint("l", i), TypeURL: listenerType}
		all.Remove = append(all.Remove, plane.Key{TypeURL: x.TypeURL, Name: x.Name})
		x.Payload = &anypb.Any{TypeUrl: listenerType, Value: contents(listenerType, x.Name, "1", "")}
		fill.Set = append(fill.Set, x)
	}
	p.Apply(fill)
	r := startRelay(t, func(c *config.Config) {
		c.Aggregation.Rules = []config.Rule{{Name: "zones", Match: `node.id == "lost" && node.metadata.zone == "a"`, Scope: []string{}}}
		u := &c.Upstreams[1]
		u.Authorities, u.TLS = []string{"slow"}, &config.UpstreamTLS{CAFile: dir.PutCA("ca", authority), ServerName: planeHost}
		u.TLS.CertFile, u.TLS.KeyFile = dir.PutPair("relay", authority.Client(relayName))
	}, p.addr, slow.addr)
	has := func(c *xdsclient.Client, typeURL string, n int) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := c.Wait(ctx, func(c *xdsclient.Client) bool { return c.Len(typeURL) == n }); err != nil {
			t.Fatal(err)
		}
	}
	listening, _ := follow(t, r, "listening", nil, listenerType)
	old, _ := follow(t, r, "old", nil, clusterType)
	has(listening, listenerType, 30)
	has(old, clusterType, 1)
	old.HoldAcks(true)
	stopped, _ := follow(t, r, "stopped", nil, clusterType)
	stopped.HoldAcks(true)
	follow(t, r, "rejecting", rejectAll, clusterType)
	follow(t, r, "waiting", nil, endpointType, "nobody")
	follow(t, r, "lost", nil, clusterType)
	follow(t, r, "patient", nil, clusterType, slowName)
	p.Apply(plane.Change{Set: []plane.Resource{clusterAt("shop", "2")}})
	p.Apply(all)
	dir.PutPair("relay", authority.Client(relayName, pki.Lifetime(-time.Minute)))

	b := startBrowser(t, r.admin, t.TempDir())
	b.step("path", nil)
	b.say("next")
	b.until("overview", func() (any, bool) {
		var o overview
		b.step("overview", &o)
		return o, o.Verdict == "8 problems" && o.names("not acknowledged", "version 2, and still have version 1", "old") && o.names("not acknowledged", "stopped") &&
			o.names("rejected", "rejecting", "no such <i>filter</i>") && o.names("name missing", "waiting", "nobody") &&
			o.names("upstream slow", "plane-1") && o.names("emptied", "30", "lds") && o.names("rule fails", "zones", "lost") && o.names("certificate", "upstreams[1].tls.cert_file")
	})
}
