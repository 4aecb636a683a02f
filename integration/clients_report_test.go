package integration

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// reportVariable names the file that the list of what ran is written to. Where it
// is set, as by "make integration", a test that cannot run is a failure; in a
// plain "go test" it is skipped with a message.
const reportVariable = "XDSRELAY_INTEGRATION_REPORT"

// clientReport lists what ran with gRPC clients, and what did not and why.
type clientReport struct {
	lines []string
}

// newClientReport writes the list when the test ends.
func newClientReport(t *testing.T) *clientReport {
	t.Helper()
	r := new(clientReport)
	t.Cleanup(func() {
		path := os.Getenv(reportVariable)
		if path == "" {
			return
		}
		if err := os.WriteFile(path, []byte(strings.Join(r.lines, "\n")+"\n"), 0o600); err != nil {
			t.Error(err)
		}
	})
	return r
}

// require ends the test of a kind of client that this machine cannot run.
func (r *clientReport) require(t *testing.T, kind clientKind) {
	t.Helper()
	err := kind.missing()
	if err == nil {
		return
	}
	r.add("COULD NOT RUN", kind.name, err.Error())
	if os.Getenv(reportVariable) != "" {
		t.Fatal(err)
	}
	t.Skip(err)
}

// ran adds the result of a test at its end.
func (r *clientReport) ran(t *testing.T, w *world, what ...string) {
	t.Helper()
	t.Cleanup(func() {
		result := "ran"
		if t.Failed() {
			result = "FAILED"
		}
		r.add(result, w.kind.name+" "+w.version, what...)
	})
}

func (r *clientReport) add(result, kind string, what ...string) {
	r.lines = append(r.lines, fmt.Sprintf("%-14s%s: %s", result, kind, strings.Join(what, ", ")))
}
