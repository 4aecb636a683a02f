//go:build linux

package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// CPU gives the time that the process's threads ran until now, in user and kernel
// mode, to the nanosecond: /proc/PID/stat counts in hundredths of a second.
func (p *Process) CPU() (time.Duration, error) {
	// The clock of another process: its id, inverted, with the kind of clock below it.
	t, err := cpu(int32(^p.cmd.Process.Pid)<<3 | 2)
	if err != nil {
		return 0, fmt.Errorf("the CPU time of server %s: %w", p.Kind, err)
	}
	return t, nil
}

// OwnCPU is that time of the process that calls.
func OwnCPU() (time.Duration, error) { return cpu(unix.CLOCK_PROCESS_CPUTIME_ID) }

func cpu(clock int32) (time.Duration, error) {
	var t unix.Timespec
	err := unix.ClockGettime(clock, &t)
	return time.Duration(t.Nano()), err
}

// Quiet waits until the process uses next to no CPU: until it has dealt with what came
// last, acknowledgements mostly. It waits five seconds at most: a server may have something
// to do for ever.
func (p *Process) Quiet(ctx context.Context) error {
	const interval, allowed = 10 * time.Millisecond, 200 * time.Microsecond
	limit := time.After(5 * time.Second)
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	before, err := p.CPU()
	for err == nil {
		var now time.Duration
		select {
		case <-ticker.C:
		case <-limit:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
		if now, err = p.CPU(); err == nil && now-before < allowed {
			return nil
		}
		before = now
	}
	return err
}

// Memory is what a process has in memory, in bytes.
type Memory struct {
	Resident int // now
	Peak     int // the most since the start
}

// Memory reads it.
func (p *Process) Memory() (Memory, error) {
	b, err := os.ReadFile(p.proc("status"))
	if err != nil {
		return Memory{}, fmt.Errorf("the memory of server %s: %w", p.Kind, err)
	}
	return parseStatus(b)
}

func (p *Process) proc(name string) string {
	return "/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/" + name
}

var errStatus = errors.New("/proc/PID/status without VmRSS and VmHWM in kB")

// parseStatus reads /proc/PID/status.
func parseStatus(b []byte) (Memory, error) {
	var m Memory
	for line := range bytes.Lines(b) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		var into *int
		switch string(key) {
		case "VmRSS":
			into = &m.Resident
		case "VmHWM":
			into = &m.Peak
		default:
			continue
		}
		number, unit, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
		kib, err := strconv.Atoi(string(number))
		if err != nil || string(unit) != "kB" {
			return Memory{}, errStatus
		}
		*into = kib << 10
	}
	if m.Resident == 0 || m.Peak == 0 {
		return Memory{}, errStatus
	}
	return m, nil
}
