package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/cmd/xdsrelay-demo/internal/demo"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write the golden file anew")

// run carries out a command line of the demo.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = cli.Run(t.Context(), rootCommand(), args, &out, &errs)
	return code, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	code, got, stderr := run(t, "--help")
	if code != 0 || stderr != "" {
		t.Errorf("exit code %d, standard error %q", code, stderr)
	}
	const file = "testdata/help.txt"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestUsageErrors(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string // on standard error
	}{
		{[]string{"extra"}, "error: unknown command \"extra\" for \"xdsrelay-demo\"\nhint: see xdsrelay-demo --help\n"},
		{[]string{"--clients", "0"}, "error: clients: expected 1 or more, got 0\nhint: see xdsrelay-demo --help\n"},
		{[]string{"--listen", "nowhere"}, "error: address to listen on: address nowhere: missing port in address\nhint: see xdsrelay-demo --help\n"},
		{[]string{"--output", "xml"}, "error: invalid argument \"xml\" for \"-o, --output\" flag: expected one of text, json\nhint: see xdsrelay-demo --help\n"},
	} {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			code, stdout, stderr := run(t, tt.args...)
			if code != cli.ExitUsage || stdout != "" || stderr != tt.want {
				t.Errorf("exit code %d, standard output %q, standard error %q, want %q", code, stdout, stderr, tt.want)
			}
		})
	}
}

// The view and the summary share standard output; with JSON the view goes to
// standard error, so that programs can read the summary.
func TestRun(t *testing.T) {
	t.Parallel()
	small := []string{"--clients", "5", "--duration", "1s"}
	t.Run("text", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := run(t, small...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "Summary after") || !strings.Contains(stdout, "the control plane is killed") {
			t.Errorf("exit code %d, standard output %q, standard error %q", code, stdout, stderr)
		}
	})
	t.Run("JSON", func(t *testing.T) {
		t.Parallel()
		code, stdout, stderr := run(t, append(slices.Clone(small), "--output", "json")...)
		var s demo.Summary
		if err := json.Unmarshal([]byte(stdout), &s); err != nil {
			t.Fatal(err)
		}
		if code != 0 || !s.Converged || s.Clients.Total != 6 || !strings.Contains(stderr, "the control plane is killed") {
			t.Errorf("exit code %d, %+v, standard error %q", code, s, stderr)
		}
	})
}

// With --stay the demo tells addresses after the summary, and both servers are there until it is ended.
func TestStay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	in, out := io.Pipe()
	var running sync.WaitGroup
	var code int
	var errs bytes.Buffer
	running.Go(func() {
		code = cli.Run(ctx, rootCommand(), []string{"--clients", "5", "--duration", "1s", "--stay"}, out, &errs)
		_ = out.Close()
	})
	var summed bool
	addresses := regexp.MustCompile(`^The control plane is on (\S+), the relay on (\S+)\.`)
	for lines := bufio.NewScanner(in); lines.Scan(); {
		summed = summed || strings.HasPrefix(lines.Text(), "Summary after")
		for _, address := range addresses.FindStringSubmatch(lines.Text()) {
			if strings.HasPrefix(address, "The") {
				continue
			}
			conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
			if err != nil || !summed {
				t.Errorf("%v, after a summary: %v", err, summed)
				continue
			}
			_ = conn.Close()
		}
		if strings.HasPrefix(lines.Text(), "A relay of your own") {
			cancel()
		}
	}
	running.Wait()
	cancel()
	if code != 0 || !summed || errs.Len() > 0 {
		t.Errorf("exit code %d, summary: %v, %s", code, summed, errs.String())
	}
}
