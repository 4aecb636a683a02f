//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
	"go.uber.org/goleak"
)

// A server's process is this test, executed anew.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == server.Argument {
		main()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Every server, from the start of its process to the check of what its clients hold.
func TestSmoke(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var out, log bytes.Buffer
	args := []string{"-scenario", "fanout", "-clients", "8", "-resources", "20", "-quick", "-output", "json"}
	if err := run(ctx, args, &out, &log); err != nil {
		t.Fatalf("%v\n%s", err, log.String())
	}
	var tables []report.Table
	if err := json.Unmarshal(out.Bytes(), &tables); err != nil {
		t.Fatal(err)
	}
	if len(tables) != 1 || len(tables[0].Results) != len(server.Kinds()) {
		t.Fatalf("%d tables, expected one with a result of each server:\n%s", len(tables), out.String())
	}
	for _, r := range tables[0].Results {
		for _, name := range []string{"last", "p50", "p99", "cpu"} {
			if r.Values[name] <= 0 {
				t.Errorf("%s: %s is %v", r.Server, name, r.Values[name])
			}
		}
		if r.Server == string(server.Relay) && r.Values["cpu_plane"] <= 0 {
			t.Error("the control plane behind the relay used no CPU")
		}
	}
}

// Every scenario, of a size that shows that it works.
func TestScenarios(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes ten seconds")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	for _, s := range scenarios() {
		t.Run(s.name, func(t *testing.T) {
			var out, log bytes.Buffer
			args := []string{"-scenario", s.name, "-server", "floor,relay", "-clients", "10", "-resources", "20", "-quick", "-output", "json"}
			if err := run(ctx, args, &out, &log); err != nil {
				t.Fatalf("%v\n%s", err, log.String())
			}
			var tables []report.Table
			if err := json.Unmarshal(out.Bytes(), &tables); err != nil {
				t.Fatal(err)
			}
			table := &tables[0]
			relays := 0
			for _, r := range table.Results {
				if r.Server != string(server.Relay) {
					continue
				}
				relays++
				for _, m := range s.metrics {
					if _, ok := table.Shown(m, r.Variant, r.Server, string(server.Floor)); !ok && m.Form != report.Count {
						t.Errorf("%s: nothing is shown as %q", r.Variant, m.Title)
					}
				}
				// What must hold on any machine.
				if r.Values["again"] != 0 || r.Values["upstream"] != 0 {
					t.Errorf("%s: %v resources were sent again, and %v requests went upstream", r.Variant, r.Values["again"], r.Values["upstream"])
				}
			}
			if relays == 0 {
				t.Error("the relay took no part")
			}
		})
	}
}

func TestDocumentHasThePlaceOfEveryScenario(t *testing.T) {
	committed, err := os.ReadFile("../../docs/benchmarks.md")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "benchmarks.md")
	if err := os.WriteFile(file, committed, 0o600); err != nil {
		t.Fatal(err)
	}
	o := &options{runs: 5, loops: 1, streams: 1, servers: server.Kinds(), clients: []int{7, 8}}
	for _, s := range scenarios() {
		if err := document(file, o, []*report.Table{{Scenario: s.name, Title: "Title of " + s.name}}); err != nil {
			t.Error(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		for _, want := range []string{"### Title of " + s.name, "go run ./integration/bench -scenario " + s.name + " -runs 5 -clients 7,8`: 5 runs, on "} {
			if !strings.Contains(string(written), want) {
				t.Errorf("%q is not in the document", want)
			}
		}
	}
}

func TestOptions(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string // of the error
	}{
		"a scenario that there is not": {[]string{"-scenario", "fanout,faster"}, `"faster" is none of`},
		"a server that there is not":   {[]string{"-server", "envoy"}, `"envoy" is none of floor, relay`},
		"no clients":                   {[]string{"-clients", "10,0"}, `"0" is not a number above zero`},
		"no runs":                      {[]string{"-runs", "-1"}, "expected a number above zero"},
		"an unknown form":              {[]string{"-output", "html"}, `"html" is neither markdown nor json`},
		"an argument":                  {[]string{"fanout"}, `unexpected argument "fanout"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(c.args, io.Discard); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, expected %q", err, c.want)
			}
		})
	}
	if _, err := parse([]string{"-help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-help gave %v", err)
	}
	o, err := parse([]string{"-server", "relay,floor", "-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.runs != 1 || len(o.servers) != 2 || o.servers[0] != server.Floor {
		t.Errorf("%d runs of %v, expected one of the floor, then the relay", o.runs, o.servers)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 100_000: "100,000", 1_002_003: "1,002,003"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %q, expected %q", n, got, want)
		}
	}
}
