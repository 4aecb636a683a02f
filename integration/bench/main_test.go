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
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
	"go.uber.org/goleak"
)

// A server's process is this test, executed anew.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == server.Argument || os.Args[1] == attackArgument) {
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
	file := filepath.Join(t.TempDir(), "results.md")
	if err := os.WriteFile(file, []byte("Text.\n<!-- begin fanout -->\nold\n<!-- end fanout -->\nMore.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"-write", file, "-scenario", "fanout", "-server", "baseline,relay,linear,snapshot", "-clients", "8", "-resources", "20", "-quick", "-output", "json"}
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
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if text := string(written); strings.Contains(text, "old") || !strings.HasSuffix(text, "\nMore.\n") ||
		!strings.Contains(text, "| 8 clients, 20 resources | snapshot |") || !strings.Contains(text, " revision") {
		t.Errorf("the document is\n%s", text)
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
			servers := "baseline,relay"
			if s.aside {
				servers = "relay" // to save time
			}
			args := []string{"-scenario", s.name, "-server", servers, "-clients", "10", "-resources", "20", "-quick", "-output", "json"}
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
				for _, m := range table.Metrics {
					if _, ok := table.Shown(m, r.Variant, r.Server, string(server.Baseline)); !ok && m.Form != report.Count && !s.aside {
						t.Errorf("%s: nothing is shown as %q", r.Variant, m.Title)
					}
				}
				// What must hold on any machine.
				if r.Values["again"] != 0 || r.Values["upstream"] != 0 {
					t.Errorf("%s: %v resources were sent again, and %v requests went upstream", r.Variant, r.Values["again"], r.Values["upstream"])
				}
				// LIM-3: what an attacker made the relay keep goes with it.
				if left := r.Values["left"]; left > littleLeft {
					t.Errorf("%s: %.0f MiB more than before are left", r.Variant, left/(1<<20))
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
	o := &options{runs: 5, loops: 1, streams: 1, clients: []int{7, 8}, access: 10, cache: "/tmp", every: time.Minute, write: file}
	at := place{machine: "a machine", revision: "revision 1"}
	for _, s := range scenarios() {
		if err := at.document(o, &report.Table{Scenario: s.name, Title: "Title of " + s.name}); err != nil {
			t.Error(err)
		}
	}
	written, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenarios() {
		for _, want := range []string{"### Title of " + s.name, "go run ./integration/bench -scenario " + s.name + " -runs 5 -clients 7,8 -access 10 -cache /tmp -every 1m0s`: revision 1, on a machine, 2"} {
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
		"a server that there is not":   {[]string{"-server", "envoy"}, `"envoy" is none of baseline, relay`},
		"no clients":                   {[]string{"-clients", "10,0"}, `"0" is not a number above zero`},
		"no runs":                      {[]string{"-runs", "-1"}, "expected a number above zero"},
		"no time":                      {[]string{"-limit", "0s"}, "expected a number above zero"},
		"snapshots too often":          {[]string{"-cache", ".", "-every", "1ms"}, "from 1s to 1h"},
		"an interval of no snapshots":  {[]string{"-every", "5s"}, "expected -cache"},
		"no number of rules":           {[]string{"-access", "-1"}, "expected a number of rules"},
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
	o, err := parse([]string{"-server", "relay,baseline", "-quick"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.runs != 1 || len(o.servers) != 2 || o.servers[0] != server.Baseline {
		t.Errorf("%d runs of %v, expected one of the baseline, then the relay", o.runs, o.servers)
	}
	if o, err = parse([]string{"-clients", "20,3,20"}, io.Discard); err != nil || !slices.Equal(o.clients, []int{3, 20}) {
		t.Errorf("the clients are %v, %v, expected 3 and 20", o, err)
	}
}

// What fails costs its own cell, and makes the end an error.
func TestAMeasurementThatFails(t *testing.T) {
	var log bytes.Buffer
	o := &options{runs: 2, loops: 1, streams: 1, limit: time.Minute}
	set := content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100}
	s := scenario{name: "odd", metrics: []report.Metric{{Name: "value", Title: "value", Form: report.Factor}}}
	s.variants = func(*options) []variant {
		return []variant{
			{name: "refuses", sets: []content.Set{set}, measure: func(context.Context, *deployment) (report.Values, error) {
				return nil, errors.New("it refuses")
			}},
			{name: "works", sets: []content.Set{set}, measure: func(context.Context, *deployment) (report.Values, error) {
				return report.Values{"value": 1}, nil
			}},
		}
	}
	o.servers = []server.Kind{server.Baseline}
	table, err := s.measure(t.Context(), o, begin(o, []scenario{s}, &log))
	if err != nil {
		t.Fatal(err)
	}
	// Clients that nobody added lack nothing, so what works holds what it should.
	if len(table.Results) != 2 || len(table.Failures) != 2 || table.Failures[1].Run != 2 || table.Failures[0].Reason != "it refuses" {
		t.Errorf("results %v, failures %v, expected two of each", table.Results, table.Failures)
	}
	if section := table.Section(); !strings.Contains(section, "- refuses, baseline, run 2: it refuses\n") || !strings.Contains(section, "| works | baseline | 1 |") {
		t.Errorf("the section does not tell of both:\n%s", section)
	}
}

// What takes too long is ended, its servers with it, and not tried again.
func TestAMeasurementThatTakesTooLong(t *testing.T) {
	var log bytes.Buffer
	o := &options{runs: 3, loops: 1, streams: 1, limit: 200 * time.Millisecond, servers: []server.Kind{server.Baseline}}
	s := scenario{name: "odd", variants: func(*options) []variant {
		return []variant{{name: "hangs", sets: []content.Set{{TypeURL: content.ClusterType, Count: 2, Size: 100}}, measure: hang}}
	}}
	table, err := s.measure(t.Context(), o, begin(o, []scenario{s}, &log))
	if err != nil {
		t.Fatal(err)
	}
	if len(table.Failures) != 1 || !strings.Contains(table.Failures[0].Reason, "took too long") {
		t.Errorf("the failures are %v, expected that one took too long", table.Failures)
	}
	if !strings.Contains(log.String(), "[3/3] odd, hangs, run 3, baseline: left out") {
		t.Errorf("the log does not say that others were left out:\n%s", log.String())
	}
}

func hang(ctx context.Context, _ *deployment) (report.Values, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

// Who ends a benchmark ends all of it: what was complete is there.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	o := &options{runs: 1, loops: 1, streams: 1, limit: time.Minute, servers: []server.Kind{server.Baseline}}
	enough := errors.New("enough")
	s := scenario{name: "odd", variants: func(*options) []variant {
		return []variant{{name: "hangs", sets: []content.Set{{TypeURL: content.ClusterType, Count: 2, Size: 100}},
			measure: func(ctx context.Context, d *deployment) (report.Values, error) {
				cancel(enough)
				return hang(ctx, d)
			}}}
	}}
	if _, err := s.measure(ctx, o, begin(o, []scenario{s}, io.Discard)); !errors.Is(err, enough) {
		t.Errorf("the error is %v, expected that it was enough", err)
	}
}

// A server that does not converge is cut off, and what clients lack counts until then.
func TestChurnThatIsGivenUp(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100}
	v := &variant{sets: []content.Set{set}, items: 2, updates: 4}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	d, err := deploy(context.WithoutCancel(ctx), &options{loops: 1, streams: 1}, server.Baseline, v)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := d.close(); err != nil {
			t.Error(err)
		}
	}()
	if err := d.add(ctx, 3, d.everything); err != nil {
		t.Fatal(err)
	}
	now := clock.New().Now()
	s := &fleet.Schedule{Items: 2, Updates: 4, Start: now - int64(time.Second)}
	d.fleet.Follow(s)
	d.aim(s, s.Updates) // which nobody makes
	if _, err := d.converge(ctx, now, time.Millisecond); err != nil || !d.cut {
		t.Errorf("it is cut off: %v, %v", d.cut, err)
	}
	if h := d.fleet.Staleness(); h.Count() != 12 || h.Quantile(0) < time.Second {
		t.Errorf("%d updates are stale for %v and more, expected 12 for a second", h.Count(), h.Quantile(0))
	}
	if err := d.fleet.Check(); err == nil {
		t.Error("the clients hold what nobody sent")
	}
}

// What cannot be kept, or is nothing, is told before anything is measured.
func TestRunTellsAtOnce(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.md")
	if err := os.WriteFile(file, []byte("<!-- begin fanout -->\n<!-- end fanout -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string][]string{
		`the document has no line "<!-- begin idle -->"`: {"-write", file, "-scenario", "fanout,idle"},
		"-write: open ":                          {"-write", file + "x"},
		"-profiles: mkdir ":                      {"-profiles", file},
		"-server: baseline take no part in slow": {"-server", "baseline", "-scenario", "slow"},
	} {
		var out, log bytes.Buffer
		err := run(t.Context(), append(args, "-quick"), &out, &log)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, expected %q", args, err, want)
		}
		if out.Len() > 0 || log.Len() > 0 {
			t.Errorf("%v: %s%s is written", args, out.String(), log.String())
		}
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 100_000: "100,000", 1_002_003: "1,002,003"} {
		if got := thousands(n); got != want {
			t.Errorf("%d is written %q, expected %q", n, got, want)
		}
	}
}
