package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// TestServe has a relay in front of a control plane, and looks at it.
func TestServe(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	address := controlPlane(t, linear, nil)
	file := write(t, "x.yaml", fmt.Sprintf(`
server: {listen: "127.0.0.1:0", rest_listen: "127.0.0.1:0", drain: 10ms}
admin: {listen: "127.0.0.1:0"}
upstreams: [{name: a, default: true, endpoints: ["%s"]}]
`, address))
	_, log, stopRelay := background(t, "serve", "--config", file)
	relay := serving(t, log)
	lines, _, stop := background(t, "watch", relay["xds"], "--type", "cds", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})
	if err := linear.UpdateResource("cart", cluster("cart", 2)); err != nil {
		t.Fatal(err)
	}
	until(t, lines, map[string]string{"event": "changed", "name": "cart"})
	polls, _, stopPolls := background(t, "watch", relay["rest"], "--type", "cds", "--output", "json", "--api-type", "REST")
	until(t, polls, map[string]string{"event": "added", "name": "cart"})
	if code := stopPolls(); code != 0 {
		t.Errorf("watch over REST: exit code %d", code)
	}
	if err := linear.DeleteResource("cart"); err != nil {
		t.Fatal(err)
	}
	until(t, lines, map[string]string{"event": "removed", "name": "cart"})
	if code := stop(); code != 0 {
		t.Errorf("watch: exit code %d", code)
	}
	if code := stopRelay(); code != 0 {
		t.Errorf("serve: exit code %d", code)
	}
}

// A relay is asked, watched and operated by unix sockets alone, and leaves no files behind.
func TestServeUnix_ACC1(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	address, dir := controlPlane(t, linear, nil), t.TempDir()
	file := write(t, "x.yaml", fmt.Sprintf(`
server:
  listen: unix://%[2]s/xds.sock
  rest_listen: unix://%[2]s/rest.sock
  drain: 10ms
  listeners: [{name: more, listen: "unix://%[2]s/more.sock", socket_mode: 0600}]
admin: {listen: unix://%[2]s/admin.sock}
upstreams: [{name: a, default: true, endpoints: ["%[1]s"]}]
`, address, dir))
	_, log, stopRelay := background(t, "serve", "--config", file)
	relay := serving(t, log)
	for _, name := range []string{"xds", "listener_more"} {
		lines, _, stop := background(t, "watch", "unix://"+relay[name], "--type", "cds", "--output", "json")
		until(t, lines, map[string]string{"event": "added", "name": "cart"})
		if code := stop(); code != 0 {
			t.Errorf("watch: exit code %d", code)
		}
	}
	modes := map[string]os.FileMode{"xds": 0o660, "rest": 0o660, "more": 0o600, "admin": 0o600}
	for name, mode := range modes {
		if info, err := os.Lstat(dir + "/" + name + ".sock"); err != nil || info.Mode().Perm() != mode || info.Mode().Type() != os.ModeSocket {
			t.Errorf("%s: %v, %v; want %v", name, info, err, mode)
		}
	}
	second := xdsrelay(t, "serve", "--config", file)
	if second.code != cli.ExitFailure || !strings.Contains(second.stderr, "server.listen: unix socket "+dir+"/xds.sock: another process listens on it") {
		t.Errorf("a second relay: %+v", second)
	}
	if code := stopRelay(); code != 0 {
		t.Errorf("serve: exit code %d", code)
	}
	for name := range modes {
		if _, err := os.Lstat(dir + "/" + name + ".sock"); !os.IsNotExist(err) {
			t.Errorf("%s: the file is still there: %v", name, err)
		}
	}
}

// serving waits for the line of the log that tells the addresses.
func serving(t *testing.T, log *bufio.Scanner) map[string]string {
	t.Helper()
	for log.Scan() {
		if _, rest, ok := strings.Cut(log.Text(), "msg=serving "); ok {
			addresses := make(map[string]string)
			for word := range strings.FieldsSeq(rest) {
				name, address, _ := strings.Cut(word, "=")
				addresses[name] = address
			}
			return addresses
		}
	}
	t.Fatal("the relay ended before it served")
	return nil
}

// Anybody may probe by admin.probes_listen, by any host name, and see nothing else there.
func TestServeProbes_ACC7_SUR5(t *testing.T) {
	file := write(t, "x.yaml", good+fmt.Sprintf(`
server: {listen: "127.0.0.1:0", drain: 10ms}
admin: {listen: "127.0.0.1:0", probes_listen: "127.0.0.1:0", tokens_file: %s}
`, write(t, "tokens", "me act secret-of-an-operator\n")))
	_, log, stop := background(t, "serve", "--config", file)
	address := serving(t, log)["probes"]
	for request, want := range map[string]int{
		"GET /livez": 200, "HEAD /healthz": 200, "GET /readyz": 503, "GET /readyz?output=json": 503,
		"GET /": 404, "GET /metrics": 404, "GET /clients": 404, "GET /config": 404, "GET /debug/pprof/": 404,
		"POST /livez": 405, "POST /hold": 404,
	} {
		method, path, _ := strings.Cut(request, " ")
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "pods.example.com"
		answer, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		if answer.StatusCode != want || strings.Contains(string(body), "scope") {
			t.Errorf("%s: %s: %s, want %d and no scopes", request, answer.Status, body, want)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestServeFails(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	file := write(t, "x.yaml", good)
	for _, args := range [][]string{
		{"--config", file, "--listen", lis.Addr().String(), "--admin-listen", "127.0.0.1:0"},
		{"--config", file, "--listen", "127.0.0.1:0", "--admin-listen", lis.Addr().String()},
		{"--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0", "--config", write(t, "rest.yaml", fmt.Sprintf(`
server: {rest_listen: %q}
upstreams: [{name: a, default: true, endpoints: ["127.0.0.1:5678"]}]
`, lis.Addr()))},
	} {
		got := xdsrelay(t, append([]string{"serve"}, args...)...)
		if got.code != cli.ExitFailure || !strings.Contains(got.stderr, "address already in use\nhint: does another program") {
			t.Errorf("%v: %+v", args, got)
		}
	}
	got := xdsrelay(t, "serve", "--config", write(t, "x.yaml", withFiles), "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")
	if got.code != cli.ExitFailure || !strings.Contains(got.stderr, "/does/not/exist.pem") {
		t.Errorf("without the TLS files: %+v", got)
	}
}

func TestOPS4_secondSignal(t *testing.T) {
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	force, stop := secondSignal()
	// Signals of one kind that are pending together are one: the second is another.
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		select {
		case <-force:
			t.Fatal("forced by less than two signals")
		default:
		}
		if err := self.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	<-force
	stop()
	_, stop = secondSignal()
	stop()
}

func TestLogger(t *testing.T) {
	for format, want := range map[config.LogFormat]string{
		config.FormatText: "level=WARN msg=yes n=1\n",
		config.FormatJSON: `"level":"WARN","msg":"yes","n":1}` + "\n",
	} {
		var b bytes.Buffer
		log := logger(&b, format, slog.LevelWarn)
		log.Info("no")
		log.Warn("yes", "n", 1)
		if log.Enabled(t.Context(), slog.LevelInfo) || !strings.HasSuffix(b.String(), want) {
			t.Errorf("%s: %q", format, b.String())
		}
	}
}

// While nobody reads the log, clients join as ever, and the relay ends when it is told to.
func TestServe_LIM4_stalledLog(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	xds := fmt.Sprintf("127.0.0.1:%d", ports.Free(t))
	file := write(t, "x.yaml", fmt.Sprintf(`
server: {listen: "%s", drain: 0s}
admin: {listen: "127.0.0.1:0"}
log: {level: debug}
upstreams: [{name: a, default: true, endpoints: ["%s"]}]
`, xds, controlPlane(t, linear, nil)))
	unread, log := fullPipe(t)
	defer unread.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() { ended <- cli.Run(ctx, rootCommand(), []string{"serve", "--config", file}, io.Discard, log) }()
	for i := range 5 {
		node := write(t, "node.yaml", fmt.Sprintf("id: client-%d\n", i)) // each has a scope of its own
		got := xdsrelay(t, "watch", xds, "--type", "cds", "--once", "--node", node)
		for i == 0 && strings.Contains(got.stderr, "connection refused") { // it begins
			got = xdsrelay(t, "watch", xds, "--type", "cds", "--once", "--node", node)
		}
		if got.code != 0 || !strings.Contains(got.stdout, "cart") {
			t.Fatalf("client %d: %+v", i, got)
		}
	}
	cancel()
	if code := <-ended; code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// fullPipe is a pipe that takes nothing more until it is read.
func fullPipe(t *testing.T) (out, in *os.File) {
	t.Helper()
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	line := bytes.Repeat([]byte("x"), 4096)
	for err == nil {
		if err = in.SetWriteDeadline(time.Now().Add(10 * time.Millisecond)); err == nil {
			_, err = in.Write(line)
		}
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if err := in.SetWriteDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close() })
	return out, in
}

// What validate warns of is in the log of a relay that runs with it.
func TestWarn_ACC7(t *testing.T) {
	cfg, err := config.Parse("x.yaml", []byte(open))
	if err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	warn(cfg, slog.New(slog.NewTextHandler(&log, nil)))
	if got := log.String(); !strings.Contains(got, "level=WARN") || !strings.Contains(got, "x.yaml:3:17: admin.listen: everybody who reaches") || strings.Count(got, "\n") != 1 {
		t.Errorf("logged %q", got)
	}
}

// The quick start of README needs no control plane: what it says shows resources, without a warning.
func TestQuickStart(t *testing.T) {
	t.Chdir("../..")
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Use it\n")
	var commands [][]string
	for line := range strings.Lines(section) {
		if strings.HasPrefix(line, "```") && commands != nil {
			break
		}
		line, _, _ = strings.Cut(line, "#")
		if rest, is := strings.CutPrefix(line, "./xdsrelay "); is {
			commands = append(commands, strings.Fields(strings.TrimSuffix(strings.TrimSpace(rest), "&")))
		}
	}
	if len(commands) != 3 || commands[0][0] != "validate" || commands[1][0] != "serve" || commands[2][0] != "watch" {
		t.Fatalf("%q", commands)
	}
	if got := xdsrelay(t, commands[0]...); got.code != 0 || got.stderr != "" {
		t.Errorf("%q: %+v", commands[0], got)
	}
	var lines []string
	_, log, stop := background(t, append(commands[1], "--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0")...)
	for log.Scan() {
		if lines = append(lines, log.Text()); strings.Contains(log.Text(), "msg=serving ") {
			break
		}
	}
	first := lines[len(lines)-1]
	for _, want := range []string{" version=", " config=examples/files.yaml ", " tls=false ", " upstreams=files"} {
		if !strings.Contains(first, want) {
			t.Errorf("%q has no %q", first, want)
		}
	}
	if strings.Contains(strings.Join(lines, "\n"), "level=WARN") {
		t.Errorf("a warning: %q", lines)
	}
	_, xds, _ := strings.Cut(first, " xds=")
	xds, _, _ = strings.Cut(xds, " ")
	watched := append([]string{"watch", xds, "--once"}, commands[2][2:]...)
	if got := xdsrelay(t, watched...); got.code != 0 || !strings.Contains(got.stdout, "+ shop") {
		t.Errorf("%q: %+v", watched, got)
	}
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
