package main

import (
	"bufio"
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden files anew")

// result is what came of a command line.
type result struct {
	code           int
	stdout, stderr string
}

// xdsrelay carries out a command line that ends by itself.
func xdsrelay(t *testing.T, args ...string) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code := cli.Run(t.Context(), rootCommand(), args, &stdout, &stderr)
	return result{code, stdout.String(), stderr.String()}
}

// output is what a command writes, for somebody who reads it meanwhile. It
// takes everything: a command must not hang because nobody reads.
type output struct {
	mu      sync.Mutex
	changed sync.Cond // on mu
	buf     bytes.Buffer
	closed  bool
}

func newOutput() *output {
	o := new(output)
	o.changed.L = &o.mu
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.changed.Broadcast()
	return o.buf.Write(p)
}

func (o *output) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.buf.Len() == 0 && !o.closed {
		o.changed.Wait()
	}
	return o.buf.Read(p)
}

func (o *output) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	defer o.changed.Broadcast()
	o.closed = true
}

// background carries out a command line until stop is called, which returns its
// exit code. Both outputs can be read while it runs.
func background(t *testing.T, args ...string) (stdout, stderr *bufio.Scanner, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	out, errs := newOutput(), newOutput()
	var code int
	var wg sync.WaitGroup
	wg.Go(func() {
		code = cli.Run(ctx, rootCommand(), args, out, errs)
		out.close()
		errs.close()
	})
	stop = func() int {
		cancel()
		wg.Wait()
		return code
	}
	t.Cleanup(func() { stop() })
	return bufio.NewScanner(out), bufio.NewScanner(errs), stop
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestHelp(t *testing.T) {
	for _, command := range []string{"", "serve", "validate", "explain", "watch", "cache", "cache inspect", "config", "config print", "config schema", "init", "bootstrap", "compare", "dev-certs",
		"status", "check", "clients", "rejections", "why", "upstreams", "scopes", "resources", "changes", "wait", "diff", "collect",
		"held", "hold", "release", "rollback", "reload", "passthrough", "version",
	} {
		t.Run("xdsrelay "+command, func(t *testing.T) {
			got := xdsrelay(t, append(strings.Fields(command), "--help")...)
			if got.code != 0 || got.stderr != "" {
				t.Errorf("exit code %d, standard error %q", got.code, got.stderr)
			}
			file := filepath.Join("testdata", "help", strings.TrimSpace("xdsrelay "+command)+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got.stdout), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got.stdout); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := xdsrelay(t); got.code != 0 || !strings.Contains(got.stdout, "Usage:") {
		t.Errorf("without arguments: %+v", got)
	}
}

func TestUsageErrors(t *testing.T) {
	notNode := write(t, "node.yaml", "name: x\n")
	valid, node := write(t, "good.yaml", good), write(t, "one.yaml", "id: x\n")
	two := write(t, "two.yaml", "id: x\n---\nid: y\n")
	empty := t.TempDir()
	for _, tt := range []struct {
		args []string
		want string // on standard error
	}{
		{[]string{"serv"}, "error: unknown command \"serv\" for \"xdsrelay\"\n\nDid you mean this?\n\tserve\n\nhint: see xdsrelay --help\n"},
		{[]string{"serve"}, "error: there is no configuration: expected --config FILE\nhint: the variable XDSRELAY_CONFIG"},
		{[]string{"serve", "--config"}, "error: flag needs an argument: --config\nhint: see xdsrelay serve --help\n"},
		{[]string{"serve", "--confg=x"}, "error: unknown flag: --confg\nhint: see xdsrelay serve --help\n"},
		{[]string{"serve", "extra"}, "error: xdsrelay serve takes no argument, got \"extra\"\nhint: see xdsrelay serve --help\n"},
		{[]string{"serve", "--config", "missing.yaml"}, "error: reading the configuration: open missing.yaml: no such file or directory\nhint: "},
		{[]string{"validate", "--config", "missing.yaml"}, "error: reading the configuration: open missing.yaml: no such file or directory\nhint: "},
		{[]string{"version", "--output", "xml"}, "error: invalid argument \"xml\" for \"-o, --output\" flag: expected one of text, json\nhint: see xdsrelay version --help\n"},
		{[]string{"explain", "--config", valid}, "error: there is no node: expected --node or --nodes\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--nodes", node}, "error: only one of --node, --nodes can be given, got --node, --nodes\nhint: "},
		{[]string{"explain", "--config", valid, "--node", "missing.yaml"}, "error: --node: missing.yaml: no such file or directory\nhint: "},
		{[]string{"explain", "--config", valid, "--node", notNode}, "error: --node: " + notNode + ":1:1: unknown field \"name\"\nhint: "},
		{[]string{"explain", "--config", valid, "--node", two}, "error: --node: " + two + ":3: there is more than one node\nhint: --nodes takes a fleet"},
		{[]string{"explain", "--config", valid, "--node", node, "-t", "clusters"}, "error: unknown type \"clusters\": expected a type URL or one of lds"},
		{[]string{"explain", "--config", valid, "--node", node, "--name", ""}, "error: --name is empty: use * for all resources\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--name", "xdstp://x"}, "error: xdstp name \"xdstp://x\""},
		{[]string{"explain", "--config", valid, "--node", node, "-t", "lds", "-n", "xdstp://a/envoy.config.cluster.v3.Cluster/b"}, "error: the name contains its type, and the type is not lds\nhint: "},
		{[]string{"explain", "--config", valid, "--nodes", node, "-n", "xdstp://a/envoy.config.cluster.v3.Cluster/b"}, "error: --nodes with an xdstp name: all clients share this name\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--peer", "web"}, "error: --peer: expected spiffe://…, got \"web\"\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--peer-cert", "missing.pem"}, "error: --peer-cert: open missing.pem: no such file or directory\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--peer-cert", node}, "error: --peer-cert: " + node + " has no certificate in PEM form\nhint: "},
		{[]string{"explain", "--config", valid, "--node", node, "--peer-cert", node, "--peer-dns", "x"}, "error: only one of --peer-cert, --peer-dns can be given, got --peer-cert, --peer-dns\nhint: "},
		{[]string{"explain", "--config", valid, "--nodes", empty}, empty + ": no node files in this folder: expected .yaml, .yml, .json, .jsonl, .ndjson\nerror: there is no node\nhint: "},
		{[]string{"explain", "--config", "-", "--node", "-"}, "error: both the configuration and the nodes are to come from standard input\n"},
		{[]string{"validate", "--config", valid, "-c", valid}, "expected one file, got " + valid + " before\n"},
		{[]string{"validate", "--config", valid, valid}, "error: expected the files either as arguments or with --config\n"},
		{[]string{"release", "5m"}, "error: xdsrelay release takes no argument, got \"5m\"\n"},
		{[]string{"hold", "--for", "5"}, "for \"--for\" flag: expected a duration such as 30s, 5ms or 1h30m, got \"5\""},
		{[]string{"hold", "--for", "-5m"}, "for \"--for\" flag: expected a duration that is not negative, got \"-5m\""},
		{[]string{"watch"}, "error: expected xdsrelay watch ADDRESS --type TYPE… [--name NAME…], got 0 arguments\nhint: see xdsrelay watch --help\n"},
		{[]string{"dev-certs"}, "error: expected xdsrelay dev-certs DIR, got 0 arguments\nhint: see xdsrelay dev-certs --help\n"},
		{[]string{"init", "--peer", "x:1"}, "error: --peer, --peers-listen must all be given, or none: missing --peers-listen\nhint: "},
		{[]string{"watch", "localhost", "--type", "cds"}, "error: expected host:port, got \"localhost\"\nhint: "},
		{[]string{"watch", "localhost:1"}, "error: there is no type to watch\nhint: "},
		{[]string{"watch", "localhost:1", "--type", "clusters"}, "error: unknown type \"clusters\": expected a type URL or one of lds"},
		{[]string{"watch", "localhost:1", "--name", "xdstp://x"}, "error: xdstp name \"xdstp://x\""},
		{[]string{"watch", "localhost:1", "-t", "cds", "--node", "missing.yaml"}, "error: --node: missing.yaml: no such file or directory\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "cds", "--node", two}, "error: --node: " + two + ":3: there is more than one node\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "cds", "--node", notNode}, "error: --node: " + notNode + ":1:1: unknown field \"name\""},
		{[]string{"watch", "localhost:1", "-t", "cds", "--api-type", "ads"}, "error: invalid argument \"ads\" for \"--api-type\" flag: expected one of AGGREGATED_DELTA_GRPC, AGGREGATED_GRPC, DELTA_GRPC, GRPC, REST\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "vhds", "--api-type", "AGGREGATED_GRPC"}, "error: vhds cannot be asked for: there is no state-of-the-world service for it\nhint: --api-type AGGREGATED_DELTA_GRPC supports every type"},
		{[]string{"watch", "localhost:1", "-t", "vhds", "--api-type", "rest"}, "error: vhds cannot be asked for: there is no REST service for it\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "example.com/T", "--api-type", "delta_grpc"}, "error: example.com/T cannot be asked for: there is no incremental per-type service for it\nhint: "},
		{[]string{"watch", "unix:/x", "-t", "cds", "--api-type", "REST"}, "error: expected host:port with REST, got \"unix:/x\"\nhint: "},
		{[]string{"watch", "http://localhost:1", "-t", "cds", "--api-type", "REST"}, "error: expected host:port with REST, got \"http://localhost:1\"\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "cds", "--cert-file", "x"}, "error: --cert-file, --key-file must all be given, or none: missing --key-file\nhint: "},
		{[]string{"watch", "localhost:1", "-t", "cds", "--ca-file", "missing.pem"}, "missing.pem"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			got := xdsrelay(t, tt.args...)
			if got.code != cli.ExitUsage || got.stdout != "" || !strings.Contains(got.stderr, tt.want) {
				t.Errorf("exit code %d, standard output %q, standard error %q, want %q", got.code, got.stdout, got.stderr, tt.want)
			}
		})
	}
}

// The exit codes of a wrong configuration are the same in all commands, and so is the text on them.
func TestExitCodes(t *testing.T) {
	bad, node := write(t, "bad.yaml", "server: {lisen: x}\n"), write(t, "one.yaml", "id: x\n")
	for _, args := range [][]string{{"serve", "-c", bad}, {"validate", bad}, {"explain", "-c", bad, "--node", node}} {
		if got := xdsrelay(t, args...); got.code != cli.ExitFailure || !strings.Contains(got.stderr, bad+":1:10: server.lisen: unknown key, did you mean \"listen\"?\n") {
			t.Errorf("%q: %+v", args, got)
		}
	}
	for _, command := range []string{"", "serve", "validate", "explain", "watch", "cache inspect", "config print", "config schema", "init", "bootstrap", "compare", "dev-certs", "held", "hold", "release", "rollback"} {
		got := xdsrelay(t, append(strings.Fields(command), "--help")...)
		for _, want := range []string{"Exit codes:\n  0  well\n  1  ", "\n  2  the command line is wrong, or names"} {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("help of %s has no %q", command, want)
			}
		}
		reaches := slices.Contains([]string{"", "watch", "compare", "held", "hold", "release", "rollback"}, command)
		if strings.Contains(got.stdout, "\n  3  a relay cannot be reached\n") != reaches {
			t.Errorf("help of %s: whether it reaches a relay, want %t", command, reaches)
		}
	}
}

func TestCompletion(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"watch", "--type", ""}, "cds\tCluster\neds\tClusterLoadAssignment\nsds\tSecret\nrtds\tRuntime\necds\tTypedExtensionConfig\n:4\n"},
		{[]string{"watch", "--output", ""}, "text\njson\n:4\n"},
		{[]string{"watch", "--api-type", ""}, "GRPC\tstate of the world, one stream for each type\nREST\tpolling with JSON\n:4\n"},
		{[]string{"watch", ""}, ":4\n"},
		{[]string{"serve", "--log-level", ""}, "debug\ninfo\nwarn\nerror\n:4\n"},
		{[]string{"explain", "--type", ""}, "cds\tCluster\neds\tClusterLoadAssignment\nsds\tSecret\nrtds\tRuntime\necds\tTypedExtensionConfig\n:4\n"},
		{[]string{"explain", "--node", ""}, "yaml\nyml\njson\n:8\n"},
		{[]string{"explain", "--peer", ""}, ":4\n"},
		{[]string{"explain", "--output", ""}, "text\njson\n:4\n"},
		{[]string{"validate", "--config", ""}, "yaml\nyml\n:8\n"},
	} {
		got := xdsrelay(t, append([]string{"__complete"}, tt.args...)...)
		if !strings.HasSuffix(got.stdout, tt.want) {
			t.Errorf("%q: %q, want %q", tt.args, got.stdout, tt.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := xdsrelay(t, "completion", shell); got.code != 0 || !strings.Contains(got.stdout, "xdsrelay") {
			t.Errorf("%s: exit code %d, %d bytes", shell, got.code, len(got.stdout))
		}
	}
}
