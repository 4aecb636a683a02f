//go:build linux

package server

import (
	"context"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
)

// A server's process is this test, executed anew.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == Argument {
		if err := Main(context.Background(), os.Stdin, os.Stdout); err != nil {
			_, _ = io.WriteString(os.Stderr, err.Error()+"\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// run starts a process, which ends with the test: in its clean-up, before which the
// test's context ends, and kills.
func run(t *testing.T, start func(context.Context) (*Process, error)) *Process {
	t.Helper()
	p, err := start(context.WithoutCancel(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// Every server serves the same resources and updates, each in its process.
func TestServersServeTheSame(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	clusters := content.Set{TypeURL: content.ClusterType, Count: 20, Size: 300}
	endpoints := content.Set{TypeURL: content.EndpointType, Count: 5, Size: 300}
	for _, kind := range Kinds() {
		for _, state := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, state of the world: %v", kind, state), func(t *testing.T) {
				start := kind
				if kind == Relay {
					start = Baseline
				}
				plane := run(t, func(ctx context.Context) (*Process, error) { return Start(ctx, start, clusters, endpoints) })
				server := plane
				if kind == Relay {
					server = run(t, func(ctx context.Context) (*Process, error) {
						return StartRelay(ctx, RelayOptions{Upstream: plane.Addr, Access: 3, Cache: t.TempDir(), Every: time.Second})
					})
				}
				check(ctx, t, server, plane, state, clusters, endpoints)
			})
		}
	}
}

func check(ctx context.Context, t *testing.T, server, plane *Process, state bool, clusters, endpoints content.Set) {
	t.Helper()
	names, err := content.NewCatalogue(clusters, endpoints)
	if err != nil {
		t.Fatal(err)
	}
	if err := names.Add(0, 3, 1); err != nil {
		t.Fatal(err)
	}
	f, err := fleet.New(fleet.Config{Addr: server.Addr, Catalogue: names, State: state})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	f.Add(3, func(int) []fleet.Subscription {
		all := []fleet.Subscription{{TypeURL: clusters.TypeURL}}
		if !state { // there a fleet follows one type
			all = append(all, fleet.Subscription{TypeURL: endpoints.TypeURL, Items: []int{names.First(1) + 4}})
		}
		return all
	})
	if err := f.Await(ctx); err != nil {
		t.Fatalf("%s: the first state: %v", server.Kind, err)
	}
	f.Target([]int{3}, 1)
	before := clock.New().Now()
	began, err := plane.Update(clusters.TypeURL, 3, 1)
	if err != nil {
		t.Fatal(err)
	}
	if began < before || began > clock.New().Now() {
		t.Errorf("%s: the update began at %d, which is not between before and after", server.Kind, began)
	}
	if err := f.Await(ctx); err != nil {
		t.Fatalf("%s: an update: %v", server.Kind, err)
	}
	if err := f.Check(); err != nil {
		t.Errorf("%s: %v", server.Kind, err)
	}
}

func TestUsageIsThatOfTheProcess(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	set := content.Set{TypeURL: content.ClusterType, Count: 1000, Size: 10 << 10}
	p := run(t, func(ctx context.Context) (*Process, error) { return Start(ctx, Baseline, set) })
	cpu, err := p.CPU()
	if err != nil || cpu <= 0 {
		t.Fatalf("the CPU time is %v, %v", cpu, err)
	}
	if err := p.Quiet(ctx); err != nil {
		t.Fatal(err)
	}
	m, err := p.Memory()
	if err != nil || m.Resident < 10<<20 || m.Peak < m.Resident {
		t.Errorf("the memory is %+v, %v, expected more than the 10 MiB of resources", m, err)
	}
	if s, err := p.Stats(); err != nil || s.Allocated < 10<<20 {
		t.Errorf("%d bytes were allocated, %v, expected more than the 10 MiB of resources", s.Allocated, err)
	}
	if own, err := OwnCPU(); err != nil || own <= 0 {
		t.Errorf("the CPU time of this process is %v, %v", own, err)
	}
	if err := p.Free(); err != nil {
		t.Error(err)
	}
	later, err := p.CPU()
	if err != nil || later <= cpu {
		t.Errorf("a garbage collection later the CPU time is %v after %v, %v", later, cpu, err)
	}
}

func TestChurnIsMadeUntilItsLimit(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100}
	p := run(t, func(ctx context.Context) (*Process, error) { return Start(ctx, Baseline, set) })
	now := clock.New().Now()
	s := &fleet.Schedule{Start: now, Interval: time.Millisecond, Items: 2, Updates: 5}
	made, ended, err := p.Churn(set.TypeURL, s, now+int64(time.Minute))
	if err != nil || made != 5 || ended < s.Due(4) {
		t.Errorf("%d updates were made until %d, %v, expected 5 until %d", made, ended, err, s.Due(4))
	}
	if made, _, err := p.Churn(set.TypeURL, s, now-1); err != nil || made != 0 {
		t.Errorf("%d updates were made after the limit, %v", made, err)
	}
}

// A child that is killed, as at the end of a context, leaves no file behind.
func TestKilledChildLeavesNothing(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	p, err := Start(t.Context(), Baseline, content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100})
	if err != nil {
		t.Fatal(err)
	}
	at, err := url.Parse(p.Mutual)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ClientPair(at.Path); err != nil {
		t.Errorf("clients have no certificate: %v", err)
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := p.Close(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Errorf("closing it gave %v, expected that it was killed", err)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) != 0 {
		t.Errorf("%v are left, %v", left, err)
	}
}

// What a child cannot do is an error here, and it goes on.
func TestCommandsThatFail(t *testing.T) {
	set := content.Set{TypeURL: content.ClusterType, Count: 2, Size: 100}
	if _, err := start(t.Context(), &command{Op: opStart, Kind: "envoy"}); err == nil || !strings.Contains(err.Error(), `there is no server "envoy"`) {
		t.Errorf("an unknown server gave %v", err)
	}
	p := run(t, func(ctx context.Context) (*Process, error) { return Start(ctx, Baseline, set) })
	for want, order := range map[string]*command{
		"no resource 7 of type":         {Op: opUpdate, TypeURL: set.TypeURL, Item: 7},
		"the server is started already": {Op: opStart, Kind: Baseline},
		`there is no operation "dance"`: {Op: "dance"},
	} {
		if _, err := p.ask(order); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected %q", err, want)
		}
	}
	if _, err := p.Stats(); err != nil {
		t.Errorf("after errors: %v", err)
	}
}

func TestCommandsBeforeTheStart(t *testing.T) {
	var out strings.Builder
	if err := Main(t.Context(), strings.NewReader(`{"op":"stats"}`+"\n"), &out); err != nil {
		t.Fatal(err)
	}
	if want := `{"error":"the server is not started"}` + "\n"; out.String() != want {
		t.Errorf("the answer is %q, expected %q", out.String(), want)
	}
	if err := Main(t.Context(), strings.NewReader("stats\n"), io.Discard); err == nil {
		t.Error("a line that is not JSON is taken")
	}
}

func TestStatusOfAProcess(t *testing.T) {
	const status = "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\nThreads:\t1\n"
	if m, err := parseStatus([]byte(status)); err != nil || m != (Memory{Resident: 1 << 20, Peak: 2 << 20}) {
		t.Errorf("the memory is %+v, %v, expected 1 MiB and at most 2 MiB", m, err)
	}
	for _, bad := range []string{"", "VmRSS: 1 kB\n", strings.ReplaceAll(status, "kB", "MB"), strings.ReplaceAll(status, "1024", "many")} {
		if m, err := parseStatus([]byte(bad)); err == nil {
			t.Errorf("%q is taken for %+v", bad, m)
		}
	}
}
