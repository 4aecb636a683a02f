package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay/internal/adminclient"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/wait"
	"github.com/xdsrelay/xdsrelay/relay/admin"
)

// replica is a relay in this process, as its operators see it.
type replica struct {
	xds, admin string
	stop       func() int
}

// serveReplica runs a relay, with snapshots in dir unless it is empty.
func serveReplica(t *testing.T, controlPlane, dir string) replica {
	t.Helper()
	file := write(t, "x.yaml", fmt.Sprintf(`
server: {listen: "127.0.0.1:0", drain: 10ms}
admin: {listen: "127.0.0.1:0"}
cache: {dir: %q}
upstreams: [{name: a, default: true, endpoints: ["%s"], settle: 100ms, resume_settle: 500ms}]
`, dir, controlPlane))
	_, log, stop := background(t, "serve", "--config", file)
	at := serving(t, log)
	return replica{at["xds"], at["admin"], stop}
}

// held is what a relay says of what it holds.
func held(t *testing.T, at string) admin.HeldPage {
	t.Helper()
	got := xdsrelay(t, "held", "--admin", at, "--output", "json")
	var answers []jsonAnswer[admin.HeldPage]
	if err := json.Unmarshal([]byte(got.stdout), &answers); got.code != 0 || err != nil || len(answers) != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	return *answers[0].Answer
}

// holds waits for something.
func holds(t *testing.T, what func() bool) {
	t.Helper()
	if _, is := wait.Until(time.Minute, what); !is {
		t.Fatal("it does not come about")
	}
}

// timeouts are those of the clusters that a new client gets.
func timeouts(t *testing.T, xds string) map[string]string {
	t.Helper()
	got := xdsrelay(t, "watch", xds, "--type", "cds", "--once", "--payload", "--output", "json", "--timeout", "20s")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	all := make(map[string]string)
	for line := range strings.Lines(got.stdout) {
		var event struct {
			Event    string `json:"event"`
			Name     string `json:"name"`
			Resource struct {
				Timeout string `json:"connect_timeout"`
			} `json:"payload"`
		}
		if err := json.Unmarshal([]byte(line), &event); err != nil {
			t.Fatal(err)
		}
		if event.Event == "added" {
			all[event.Name] = event.Resource.Timeout
		}
	}
	return all
}

// Two relays hold, one of them is restarted, and both release (GATE-4).
func TestHoldAndRelease_GATE4(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{
		"cart": cluster("cart", 1), "gone": cluster("gone", 1),
	}))
	address := controlPlane(t, linear, nil)
	dir := t.TempDir()
	relays := []replica{serveReplica(t, address, dir), serveReplica(t, address, "")}
	both := relays[0].admin + "," + relays[1].admin
	before := map[string]string{"cart": "1s", "gone": "1s"}
	for _, r := range relays {
		if diff := cmp.Diff(before, timeouts(t, r.xds)); diff != "" {
			t.Fatal(diff)
		}
	}

	got := xdsrelay(t, "hold", "--admin", both)
	if got.code != cli.ExitUsage || !strings.Contains(got.stderr, "--yes") {
		t.Fatalf("without a confirmation: %+v", got)
	}
	if len(held(t, relays[0].admin).Orders) > 0 {
		t.Fatal("held without a confirmation")
	}
	got = xdsrelay(t, "hold", "--admin", both, "--yes", "--type", "cds")
	if got.code != 0 || strings.Count(got.stdout, ": done in 1 scope") != 2 || strings.Count(got.stdout, "warning: cache.dir is not set") != 1 {
		t.Fatalf("%+v", got)
	}
	lines, _, _ := background(t, "watch", relays[0].xds, "--type", "cds", "--payload", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})
	if err := errors.Join(linear.UpdateResource("cart", cluster("cart", 2)), linear.DeleteResource("gone"), linear.UpdateResource("new", cluster("new", 1))); err != nil {
		t.Fatal(err)
	}
	for _, r := range relays {
		holds(t, func() bool {
			p := held(t, r.admin)
			return len(p.Held) == 1 && p.Held[0].Removed == 1 && p.Held[0].Changed == 2
		})
		if diff := cmp.Diff(before, timeouts(t, r.xds)); diff != "" {
			t.Fatalf("a new client: %s", diff)
		}
	}
	got = xdsrelay(t, "held", "--admin", both, "--type", "cds")
	if got.code != 0 || !strings.Contains(got.stdout, `-   "connect_timeout": "1s"`) || !strings.Contains(got.stdout, `+   "connect_timeout": "2s"`) ||
		strings.Count(got.stdout, "gone: removed") != 2 || strings.Count(got.stdout, "new: new, version") != 2 ||
		strings.Count(got.stdout, "an operator's order: held since") != 2 {
		t.Fatalf("%+v", got)
	}

	if code := relays[0].stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	got = xdsrelay(t, "release", "--admin", both, "--yes", "--type", "eds")
	if got.code != cli.ExitUnreachable || !strings.Contains(got.stdout, ": FAILED: unreachable") || !strings.Contains(got.stdout, relays[1].admin+": done in 1 scope, 0 names released") {
		t.Fatalf("%+v", got)
	}
	relays[0] = serveReplica(t, address, dir)
	both = relays[0].admin + "," + relays[1].admin
	if p := held(t, relays[0].admin); len(p.Orders) != 1 || !p.Orders[0].Held {
		t.Fatalf("after a restart: %+v", p)
	}
	if diff := cmp.Diff(before, timeouts(t, relays[0].xds)); diff != "" {
		t.Fatalf("after a restart: %s", diff)
	}
	holds(t, func() bool {
		p := held(t, relays[0].admin)
		return len(p.Held) == 1 && p.Held[0].Removed == 1 && p.Held[0].Changed == 2
	})
	if diff := cmp.Diff(before, timeouts(t, relays[0].xds)); diff != "" {
		t.Fatalf("after a restart: %s", diff)
	}

	if got = xdsrelay(t, "hold", "--admin", both, "--yes", "--type", "sds"); got.code != cli.ExitFailure || !strings.Contains(got.stdout, "secrets cannot be held") {
		t.Fatalf("%+v", got)
	}
	got = xdsrelay(t, "release", "--admin", both, "--yes", "--output", "json")
	if got.code != 0 || strings.Count(got.stdout, `"released": 3`) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, r := range relays {
		if p := held(t, r.admin); len(p.Orders)+len(p.Held) > 0 {
			t.Fatalf("%+v", p)
		}
		if diff := cmp.Diff(map[string]string{"cart": "2s", "new": "1s"}, timeouts(t, r.xds)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// An admin port with TLS and tokens knows who acts, and lets nobody else.
func TestHoldWithToken_ACC7_GATE4(t *testing.T) {
	dir, ca := pki.NewFolder(t), pki.NewAuthority(t, "ca")
	dir.PutPair("relay", ca.Server("localhost"))
	dir.PutPair("ann", ca.Client("ann"))
	dir.PutCA("ca", ca)
	dir.Put("tokens", []byte("prometheus read s3cret-token-for-looking\nann act s3cret-token-for-acting\n"))
	dir.Put("look", []byte("s3cret-token-for-looking\n"))
	dir.Put("old", []byte("s3cret-token-of-last-year\n"))
	dir.Put("act", []byte("s3cret-token-for-acting\n"))
	linear := cachev3.NewLinearCache(resource.ClusterType)
	file := write(t, "x.yaml", fmt.Sprintf(`
server: {listen: "127.0.0.1:0", drain: 10ms}
admin:
  listen: "127.0.0.1:0"
  tls: {cert_file: %[1]s, key_file: %[2]s, client_ca_file: %[3]s}
  tokens_file: %[4]s
upstreams: [{name: a, default: true, endpoints: [%[5]q]}]
`, dir.Path("relay.crt"), dir.Path("relay.key"), dir.Path("ca.crt"), dir.Path("tokens"), controlPlane(t, linear, nil)))
	_, log, _ := background(t, "serve", "--config", file)
	admin := strings.Replace(serving(t, log)["admin"], "127.0.0.1", "localhost", 1)
	with := func(args ...string) []string {
		return append(args, "--admin", admin, "--ca-file", dir.Path("ca.crt"), "--cert-file", dir.Path("ann.crt"), "--key-file", dir.Path("ann.key"))
	}
	for _, tt := range []struct {
		args []string
		code int
		want string // in the output
	}{
		{with("held", "--token-file", dir.Path("look")), 0, "nothing is held"},
		{with("hold", "--yes", "--token-file", dir.Path("look")), cli.ExitFailure, "this token is for looking only"},
		{with("hold", "--yes", "--token-file", dir.Path("act"), "--scope", "typo"), cli.ExitFailure, `FAILED: there is no scope "typo" now`},
		{with("hold", "--yes", "--token-file", dir.Path("act"), "--scope", "typo", "--future"), 0, "done; there is no such scope yet"},
		{with("hold", "--yes", "--token-file", dir.Path("act"), "--upstream", "b"), cli.ExitFailure, `FAILED: there is no upstream "b"`},
		{with("hold", "--yes", "--token-file", dir.Path("act"), "--type", "example.com/T"), cli.ExitFailure, `FAILED: nobody knows the type "example.com/T"`},
		{with("hold", "--yes", "--token-file", dir.Path("act")), 0, "done; there is no such scope yet"},
		{with("release", "--yes", "--token-file", dir.Path("act")), 0, "done; there is no such scope yet"},
		{with("release", "--yes", "--token-file", dir.Path("act")), cli.ExitFailure, "nothing was held\nerror: there was nothing to do\n"},
		{with("held"), cli.ExitFailure, "this admin port asks for a token"},
		{with("held"), cli.ExitFailure, "1 of 1 relays failed\nhint: --token-file or $XDSRELAY_ADMIN_TOKEN_FILE names a file with a token\n"},
		{with("held", "--token-file", dir.Path("old")), cli.ExitFailure, "the token is none of admin.tokens_file\n"},
		{with("held", "--token-file", dir.Path("old")), cli.ExitFailure, "hint: the relay does not know the token"},
		{with("hold", "--yes", "--token-file", dir.Path("look")), cli.ExitFailure, "hint: its role in admin.tokens_file does not allow that"},
		{[]string{"held", "--admin", admin, "--token-file", dir.Path("look")}, cli.ExitFailure, "HTTPS server"},
		{[]string{"held", "--admin", admin, "--token-file", dir.Path("look")}, cli.ExitFailure, "hint: the admin port has TLS: add --tls"},
		{[]string{"held", "--admin", admin, "--tls"}, cli.ExitUnreachable, "hint: --ca-file names the CA"},
		{[]string{"held", "--admin", admin, "--token-file", dir.Path("look"), "--ca-file", dir.Path("ca.crt")}, cli.ExitUnreachable, "hint: the admin port asks for a certificate"},
		{[]string{"held", "--admin", "127.0.0.1:1"}, cli.ExitUnreachable, "hint: does a relay run there"},
		{[]string{"held", "--admin", admin, "--token-file", dir.Path("none")}, cli.ExitUsage, "--token-file: "},
		{with("held", "--token-file", dir.Path("tokens")), cli.ExitUsage, "--token-file: "},
		{[]string{"held", "--admin", admin, "--ca-file", dir.Path("act")}, cli.ExitUsage, "has no certificate in PEM form"},
		{[]string{"held", "--admin", admin, "--cert-file", dir.Path("ann.crt")}, cli.ExitUsage, "--cert-file and --key-file"},
	} {
		got := xdsrelay(t, tt.args...)
		if got.code != tt.code || !strings.Contains(got.stdout+got.stderr, tt.want) || strings.Contains(got.stdout+got.stderr, "s3cret") {
			t.Errorf("%q: %+v, want %d and %q", tt.args, got, tt.code, tt.want)
		}
	}
}

// A hold ends by itself after its time.
func TestHoldFor_GATE4(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	r := serveReplica(t, controlPlane(t, linear, nil), "")
	lines, _, _ := background(t, "watch", r.xds, "--type", "cds", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})
	if got := xdsrelay(t, "hold", "--admin", r.admin, "--yes", "--for", "300ms"); got.code != 0 {
		t.Fatalf("%+v", got)
	}
	if err := linear.UpdateResource("cart", cluster("cart", 2)); err != nil {
		t.Fatal(err)
	}
	until(t, lines, map[string]string{"event": "changed", "name": "cart"})
	if p := held(t, r.admin); len(p.Orders)+len(p.Held) > 0 {
		t.Errorf("%+v", p)
	}
}

func TestConfirm_GATE4(t *testing.T) {
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "n\n": false, "yess\n": false} {
		var out strings.Builder
		if err := confirm(strings.NewReader(answer), &out, true, "hold?"); (err == nil) != want || out.String() != "hold? [y/N] " {
			t.Errorf("%q: %v, %q", answer, err, out.String())
		}
	}
	if err := confirm(strings.NewReader("y\n"), io.Discard, false, "hold?"); err == nil {
		t.Error("confirmed where there is no terminal")
	}
}

func TestDifference_GATE4(t *testing.T) {
	for _, tt := range []struct{ before, after, want string }{
		{"a b c", "a b c", ""},
		{"a b c d e f g", "a b c X e f g", "  b|  c|- d|+ X|  e|  f"},
		{"", "a b", "+ a|+ b"},
		{"a b", "", "- a|- b"},
		{"a 1 2 3 4 5 6 b", "A 1 2 3 4 5 6 B", "- a|+ A|  1|  2|  ...|  5|  6|- b|+ B"},
	} {
		got := strings.Join(difference(strings.Fields(tt.before), strings.Fields(tt.after)), "|")
		if got != tt.want {
			t.Errorf("%s, %s: %s", tt.before, tt.after, got)
		}
	}
	long := strings.Fields(strings.Repeat("x ", maxCompared+1))
	if got := difference(long[:1], append([]string{"y"}, long...)); len(got) == 0 {
		t.Error("nothing is shown of a long text")
	}
}

// The text says who holds what, and since when.
func TestHeldText_GATE4(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var b bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetOut(&b)
	scope := ""
	page := admin.HeldPage{
		Orders: []admin.OrderView{
			{Upstream: "a", Held: true, Since: now.Add(-time.Minute), Endpoints: true}, {Scope: &scope, TypeURL: resource.ClusterType},
		},
		Held: []admin.HeldView{{
			Upstream: "a", TypeURL: resource.ListenerType, Why: "guard", Since: now.Add(-time.Second), Until: now.Add(time.Minute), Removed: 1, More: 2,
			Names: []admin.HeldName{{Name: "x", Error: "NotFound: why"}},
		}},
	}
	answers := []adminclient.Answer[admin.HeldPage]{{Address: "r:1", Value: page}, {Address: "r:2"}, {Address: "r:3", Err: os.ErrClosed}}
	if err := printed(&actFlags{cmd: cmd, output: new("text")}, answers, func(b *bytes.Buffer, a *adminclient.Answer[admin.HeldPage]) { heldText(b, a, now) }); err != nil {
		t.Fatal(err)
	}
	want := `r:1:
  an operator's order: held since 2026-01-02T03:03:05Z (1m0s ago), until it is released: upstream a, scope all, type all, endpoints flow
  an operator's order: not held: upstream all, scope of xdstp names, type cds
  lds of upstream a, scope (xdstp names): held by the guard since 2026-01-02T03:04:04Z (1s ago), until 2026-01-02T03:05:05Z (in 1m0s): 1 name removed, 0 changed or new
    x: removed (NotFound: why)
    and 2 names more
r:2: nothing is held
r:3: FAILED: file already closed
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}

// A wrong change reaches both relays, and both go back to before it. One of them is restarted (GATE-4).
func TestRollback_GATE4(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{
		"cart": cluster("cart", 1), "gone": cluster("gone", 1),
	}))
	address := controlPlane(t, linear, nil)
	dir := t.TempDir()
	relays := []replica{serveReplica(t, address, dir), serveReplica(t, address, "")}
	both := relays[0].admin + "," + relays[1].admin
	right, wrong := map[string]string{"cart": "1s", "gone": "1s"}, map[string]string{"cart": "2s", "new": "1s"}
	var clients []*bufio.Scanner
	for _, r := range relays {
		if diff := cmp.Diff(right, timeouts(t, r.xds)); diff != "" {
			t.Fatal(diff)
		}
		lines, _, _ := background(t, "watch", r.xds, "--type", "cds", "--payload", "--output", "json")
		until(t, lines, map[string]string{"event": "added", "name": "cart"})
		clients = append(clients, lines)
	}
	before := time.Now()
	if err := errors.Join(linear.UpdateResource("cart", cluster("cart", 2)), linear.DeleteResource("gone"), linear.UpdateResource("new", cluster("new", 1))); err != nil {
		t.Fatal(err)
	}
	for i, r := range relays {
		until(t, clients[i], map[string]string{"event": "changed", "name": "cart"})
		holds(t, func() bool { return cmp.Equal(wrong, timeouts(t, r.xds)) })
	}
	got := xdsrelay(t, "rollback", "--admin", both)
	if got.code != 0 || strings.Count(got.stdout, "then cds 2 changed or removed, 1 new") != 2 {
		t.Fatalf("%+v", got)
	}
	if got = xdsrelay(t, "rollback", "0", "--yes", "--admin", both); got.code != cli.ExitUsage || !strings.Contains(got.stderr, "of one relay") {
		t.Fatalf("%+v", got)
	}
	got = xdsrelay(t, "rollback", before.UTC().Format(time.RFC3339Nano), "--yes", "--admin", both)
	if got.code != 0 || strings.Count(got.stdout, ": done in 1 scope, 3 names changed back") != 2 {
		t.Fatalf("%+v", got)
	}
	for i, r := range relays {
		until(t, clients[i], map[string]string{"event": "changed", "name": "cart"})
		if diff := cmp.Diff(right, timeouts(t, r.xds)); diff != "" {
			t.Fatalf("a new client: %s", diff)
		}
	}
	if err := linear.UpdateResource("cart", cluster("cart", 3)); err != nil {
		t.Fatal(err)
	}
	holds(t, func() bool {
		return strings.Count(xdsrelay(t, "held", "--admin", both).stdout, `+   "connect_timeout": "3s"`) == 2
	})

	if code := relays[0].stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	relays[0] = serveReplica(t, address, dir)
	if diff := cmp.Diff(right, timeouts(t, relays[0].xds)); diff != "" {
		t.Fatalf("after a restart: %s", diff)
	}
	got = xdsrelay(t, "rollback", "--admin", relays[0].admin, "--output", "json")
	var answers []jsonAnswer[[]admin.Generations]
	if err := json.Unmarshal([]byte(got.stdout), &answers); got.code != 0 || err != nil || len((*answers[0].Answer)[0].Generations) < 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	number := (*answers[0].Answer)[0].Generations[1].Number // before the rollback
	got = xdsrelay(t, "rollback", fmt.Sprint(number), "--yes", "--admin", relays[0].admin)
	if diff := cmp.Diff(wrong, timeouts(t, relays[0].xds)); got.code != 0 || diff != "" {
		t.Fatalf("%+v, %s", got, diff)
	}
	if got = xdsrelay(t, "rollback", "1000h", "--yes", "--admin", relays[0].admin); got.code != cli.ExitFailure || !strings.Contains(got.stdout, "does not remember") {
		t.Fatalf("%+v", got)
	}
	for _, r := range relays {
		if got = xdsrelay(t, "release", "--yes", "--admin", r.admin); got.code != 0 {
			t.Fatalf("%+v", got)
		}
		holds(t, func() bool { return cmp.Equal(map[string]string{"cart": "3s", "new": "1s"}, timeouts(t, r.xds)) })
	}
}

func TestGeneration_GATE4(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for argument, want := range map[string]string{
		"41": "41", "5m": "2026-01-02T02:59:05Z", "2026-01-02T03:04:04Z": "2026-01-02T03:04:04Z",
		"-5m": "", "0s": "", "2026-01-02T03:04:06Z": "", "yesterday": "",
	} {
		var c admin.Command
		got := ""
		if generation(&c, argument, now) == nil {
			got = c.At.Format(time.RFC3339)
			if c.Generation != nil {
				got = fmt.Sprint(*c.Generation)
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", argument, got, want)
		}
	}
}
