//go:build linux

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
)

// machine says on what was measured, without naming it.
func machine() (string, error) {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return "", fmt.Errorf("the machine's memory: %w", err)
	}
	gib := float64(uint64(info.Totalram)*uint64(info.Unit)) / (1 << 30) //nolint:unconvert // it has 32 bits on some machines
	return fmt.Sprintf("%d cores, %.0f GiB of memory, %s on %s/%s",
		runtime.NumCPU(), gib, runtime.Version(), runtime.GOOS, runtime.GOARCH), nil
}

// command is the one that gives a table again. What else the command line held, files to
// write for instance, does not change it.
func (o *options) command(scenario string) string {
	args := []string{"go run ./integration/bench -scenario " + scenario, "-runs " + strconv.Itoa(o.runs)}
	if o.quick {
		args = append(args, "-quick")
	}
	if o.servers != nil {
		args = append(args, "-server "+commas(o.servers))
	}
	if o.clients != nil {
		args = append(args, "-clients "+commas(o.clients))
	}
	if o.resources != nil {
		args = append(args, "-resources "+commas(o.resources))
	}
	if o.loops != 1 {
		args = append(args, "-loops "+strconv.Itoa(o.loops))
	}
	if o.streams != 1 {
		args = append(args, "-streams "+strconv.Itoa(o.streams))
	}
	if o.access != 0 {
		args = append(args, "-access "+strconv.Itoa(o.access))
	}
	if o.cache != "" {
		args = append(args, "-cache "+o.cache)
	}
	if o.every != 0 {
		args = append(args, "-every "+o.every.String())
	}
	return strings.Join(args, " ")
}

// commas writes a list as the command line takes it.
func commas[T any](list []T) string {
	texts := make([]string, 0, len(list))
	for _, v := range list {
		texts = append(texts, fmt.Sprint(v))
	}
	return strings.Join(texts, ",")
}

// place is where and of what something is measured.
type place struct{ machine, revision string }

func whereabouts(ctx context.Context) (place, error) {
	on, err := machine()
	return place{on, revision(ctx)}, err
}

// revision is the one of the source, if it is under git's control. The document that the
// results go into does not change it.
func revision(ctx context.Context) string {
	head, err := exec.CommandContext(ctx, "git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "an unknown revision"
	}
	at := "revision " + strings.TrimSpace(string(head))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/", ":(top,exclude)docs/benchmarks.md").Run() != nil {
		at += " with changes"
	}
	return at
}

// document puts a table into the file that was asked for, with the command, the machine,
// the revision and the day below it. The rest of the file stays as it is.
func (p place) document(o *options, t *report.Table) error {
	text, err := os.ReadFile(o.write) //nolint:gosec // a file of the user's choice
	if err != nil {
		return err
	}
	section := fmt.Sprintf("%s\n%#q: %s, on %s, %s.\n",
		t.Section(), o.command(t.Scenario), p.revision, p.machine, time.Now().UTC().Format("2006-01-02 15:04 UTC"))
	next, err := report.Put(string(text), t.Scenario, section)
	if err != nil {
		return fmt.Errorf("%s: %w", o.write, err)
	}
	return os.WriteFile(o.write, []byte(next), 0o644) //nolint:gosec // a document is for everybody
}
