package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	quick   = 200 * time.Millisecond // of processor time: longer tests run after all others, each by itself
	nearest = 20                     // so many tests of a package run before the others: those that reach the fewest operators
	idle    = 60                     // seconds without a processor after which a test is stuck
	memory  = 8 << 30
)

// schedule returns tests in the order in which they run. Tests of a group run in one process.
func schedule(tests []test) (groups [][]test) {
	slices.SortStableFunc(tests, func(a, b test) int { return cmp.Compare(a.sites, b.sites) })
	var short, long []test
	for _, t := range tests {
		if t.time < quick {
			short = append(short, t)
		} else {
			long = append(long, t)
		}
	}
	groups = byPackage(short)
	if len(groups) > 0 && len(groups[0]) > nearest {
		groups = slices.Insert(groups, 1, groups[0][nearest:])
		groups[0] = groups[0][:nearest]
	}
	slices.SortStableFunc(long, func(a, b test) int { return cmp.Compare(a.time, b.time) })
	for _, t := range long {
		groups = append(groups, []test{t})
	}

	return groups
}

// byPackage returns groups of the tests of each package. The largest one comes first.
func byPackage(tests []test) (groups [][]test) {
	for _, t := range tests {
		i := slices.IndexFunc(groups, func(g []test) bool { return g[0].of == t.of })
		if i < 0 {
			i, groups = len(groups), append(groups, nil)
		}
		groups[i] = append(groups[i], t)
	}
	slices.SortStableFunc(groups, func(a, b []test) int { return len(b) - len(a) })

	return groups
}

// play runs tests until one fails. binary returns the program with the tests of a package.
func (s suite) play(ctx context.Context, tests []test, env string, binary func(of string) (string, error)) (int, error) {
	for _, group := range schedule(tests) {
		of := group[0].of
		program, err := binary(of)
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return notViable, nil
		}
		if err != nil {
			return failed, err
		}
		var names []string
		var sum time.Duration
		for _, t := range group {
			names, sum = append(names, t.name), sum+t.time
		}
		cmd := s.command(ctx, program, of, "-test.run=^("+strings.Join(names, "|")+")$")
		cmd.Env = append(os.Environ(), env)
		err = limited(cmd, map[int]uint64{unix.RLIMIT_CPU: 10 + 5*uint64(sum.Seconds()), unix.RLIMIT_AS: memory})
		if _, ok := errors.AsType[*exec.ExitError](err); ok {
			return killed, nil
		}
		if err != nil {
			return failed, err
		}
	}

	return lived, nil
}

// limited runs tests with limits of the kernel. A mutant may loop for ever, wait for ever, or use up the memory of the
// machine. Its seconds of a processor are limited, not its time: a busy machine kills no mutant.
func limited(cmd *exec.Cmd, limits map[int]uint64) error {
	if err := cmd.Start(); err != nil {
		return err
	}
	for resource, limit := range limits {
		if err := unix.Prlimit(cmd.Process.Pid, resource, &unix.Rlimit{Cur: limit, Max: limit}, nil); err != nil {
			_ = cmd.Process.Kill() // it may have ended
			_ = cmd.Wait()

			return err
		}
	}
	done := make(chan struct{})
	defer close(done)
	go watch(cmd.Process, done)

	return cmd.Wait()
}

// watch kills a process that waits for ever. It counts its own seconds: none pass while both are stopped.
func watch(p *os.Process, done <-chan struct{}) {
	var last string
	for waited := 0; waited < idle; waited++ {
		select {
		case <-done:
			return
		case <-time.After(time.Second):
		}
		if now := processorTime(p.Pid); now != last {
			last, waited = now, 0
		}
	}
	_ = p.Kill() // it may have ended
}

// processorTime returns what the kernel shows of the times of a process.
func processorTime(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // nothing if it has ended
	// The name of the program, in parentheses, may contain spaces.
	fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
	if len(fields) < 13 {
		return ""
	}

	return fields[11] + " " + fields[12]
}

// compile returns the program with the tests of a package of a module. It compiles it if need be.
func compile(ctx context.Context, root, of, dir string) (string, error) {
	name := filepath.Join(dir, strings.ReplaceAll(of, "/", "_"))
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	cmd := exec.CommandContext(ctx, os.Getenv("MUTATE_GO"), "test", "-trimpath", "-vet=off", "-ldflags=-s -w", "-c", "-o", name, "./"+of) //nolint:gosec // because its caller names them
	cmd.Dir = root

	return name, cmd.Run()
}
