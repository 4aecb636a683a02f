package integration

import (
	"bufio"
	"context"
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
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
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

// say lets the browser go on.
func (b *browser) say(word string) {
	b.t.Helper()
	if _, err := fmt.Fprintln(b.in, word); err != nil {
		b.t.Fatal(err)
	}
}

func clusterOf(name string) plane.Resource {
	return plane.Resource{Name: name, TypeURL: clusterType, Payload: &anypb.Any{TypeUrl: clusterType, Value: contents(clusterType, name, "1", "")}}
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
	follow := func(node string, subscribe func(c *xdsclient.Client), judge func(*xdsclient.Response) error) (leave func()) {
		conn, err := xdsclient.Dial("passthrough:///"+r.addr, nil)
		if err != nil {
			t.Fatal(err)
		}
		c := xdsclient.New(xdsclient.Options{Form: xdsclient.Incremental, Conn: conn, Node: &corev3.Node{Id: node}, OnResponse: judge})
		subscribe(c)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { _ = c.Follow(ctx, xdsclient.Backoff{}, nil); close(done) }() // ends with leave
		leave = func() { cancel(); <-done; _ = conn.Close() }
		t.Cleanup(leave)
		return leave
	}
	clusters := func(c *xdsclient.Client) { c.Subscribe(clusterType) }
	follow("good-<b>1</b>", clusters, nil)
	b := startBrowser(t, r.admin, screenshots)
	var path string
	if b.step("path", &path); path != "/ui/" {
		t.Errorf("the front page leads to %q", path)
	}
	b.say("next")

	type overview struct {
		Verdict  string
		Problems []string
	}
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
	names := func(o *overview, node, word string) bool {
		return slices.ContainsFunc(o.Problems, func(p string) bool { return strings.Contains(p, node) && strings.Contains(p, word) })
	}
	until("before", func(o *overview) bool { return o.Verdict == "All is well" })
	b.say("again")
	follow("rejecting", clusters, func(*xdsclient.Response) error { return errors.New("no such <i>filter</i>") })
	gone := follow("waiting", func(c *xdsclient.Client) { c.Subscribe(endpointType, "nobody") }, nil)
	until("both problems", func(o *overview) bool {
		return names(o, "rejecting", "no such <i>filter</i>") && names(o, "waiting", "nobody") && o.Verdict == "2 problems"
	})
	b.say("again")
	gone()
	until("one has gone", func(o *overview) bool { return o.Verdict == "1 problem" && names(o, "rejecting", "") })
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
	b.step("clients", &table)
	for _, node := range []string{"good-<b>1</b>", "rejecting"} {
		if !slices.ContainsFunc(table, func(row []string) bool { return row[0] == node }) {
			t.Errorf("the clients are %q, without %s", table, node)
		}
	}
	b.say("next")
	b.step("upstreams", nil)
	if !strings.Contains(string(b.last), "plane-0") {
		t.Errorf("the upstreams are %s", b.last)
	}
	b.say("next")
	b.step("resources", nil)
	if !strings.Contains(string(b.last), "shop") {
		t.Errorf("the resources are %s", b.last)
	}
	b.say("next")
	b.step("done", nil)
	b.say("next")
}
