package integration

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
)

// reportVariable names the file that the list of what ran is appended to. Where it
// is set, as by "make integration", a test that cannot run is a failure; in a
// plain "go test" it is skipped with a message.
const reportVariable = "XDSRELAY_INTEGRATION_REPORT"

// report lists what ran with gRPC clients and with control planes in processes of
// their own, and what did not and why.
type report struct {
	mu    sync.Mutex
	lines []string
}

// newReport appends the list to the file when the test ends.
func newReport(t *testing.T) *report {
	t.Helper()
	r := new(report)
	t.Cleanup(func() {
		path := os.Getenv(reportVariable)
		if path == "" || len(r.lines) == 0 {
			return
		}
		file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = file.WriteString(strings.Join(r.lines, "\n") + "\n")
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			t.Error(err)
		}
	})
	return r
}

// require ends a test that needs what this machine lacks, a kind of client for
// instance.
func (r *report) require(t *testing.T, name string, missing func() error) {
	t.Helper()
	if !r.has(t, name, missing) {
		t.SkipNow()
	}
}

// has tells whether this machine has what a test needs.
func (r *report) has(t *testing.T, name string, missing func() error) bool {
	t.Helper()
	err := missing()
	if err == nil {
		return true
	}
	r.add("COULD NOT RUN", name, err.Error())
	if os.Getenv(reportVariable) != "" {
		t.Error(err)
	} else {
		t.Log(err)
	}
	return false
}

// ran adds the result of a test at its end. Only then name may be known in full.
func (r *report) ran(t testing.TB, name func() string, what ...string) {
	t.Helper()
	t.Cleanup(func() {
		if _, ok := t.(*trial); ok {
			return // the list has it as a known fault, or the test has failed
		}
		result := "ran"
		if t.Failed() {
			result = "FAILED"
		}
		r.add(result, name(), what...)
	})
}

func (r *report) add(result, name string, what ...string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf("%-14s%s: %s", result, name, strings.Join(what, ", ")))
}
