//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
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
	if len(o.servers) < len(server.Kinds()) {
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

// document puts tables into a file, with the command and the machine below each.
func document(file string, o *options, tables []*report.Table) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	on, err := machine()
	if err != nil {
		return err
	}
	for _, t := range tables {
		section := fmt.Sprintf("%s\n%#q: %d runs, on %s.\n", t.Section(), o.command(t.Scenario), o.runs, on)
		next, err := report.Put(string(text), t.Scenario, section)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		text = []byte(next)
	}
	return os.WriteFile(file, text, 0o644) //nolint:gosec // a document is for everybody
}
