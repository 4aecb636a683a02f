package envoy

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// outcome is what came of a play.
type outcome struct {
	faults string
	notes  string
	took   time.Duration
}

var reporting sync.Mutex //nolint:gochecknoglobals // one report file for the process

// report adds a play to the report, if there is one.
func report(t *testing.T, s *scenario, f form, at side, o outcome) {
	t.Helper()
	path := os.Getenv(reportVariable)
	if path == "" {
		return
	}
	result := "passed"
	switch {
	case t.Failed():
		result = "FAILED"
	case o.faults != "":
		result = "known"
	}
	line := strings.Join(slices.DeleteFunc([]string{
		fmt.Sprintf("%-7s %-6s %s / %s (%.1f s)", result, at, s.name, f.name, o.took.Seconds()), o.notes, o.faults,
	}, func(part string) bool { return part == "" }), "; ")
	reporting.Lock()
	defer reporting.Unlock()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	if _, err := fmt.Fprintln(file, line); err != nil {
		t.Error(err)
	}
}
