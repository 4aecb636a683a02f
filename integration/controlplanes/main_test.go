// Package controlplanes holds tests of the recipes of examples/control-planes: each has the
// real control plane, real Envoys directly at it, and real Envoys behind a relay that runs
// the recipe. They have the same resources and versions, changes follow, and a fresh Envoy is
// served when the control plane is dead. Two control planes have a quiet night besides, of 24
// hours by the clock of the relay.
//
// The control planes are programs of integration/testdata, which take long to build: only
// "make soak SUITE=control-planes" does. In a plain "go test" these tests are skipped.
package controlplanes

import (
	"os"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"go.uber.org/goleak"
)

// reportVariable names the file that the results are written to. The tests run only where it
// is set: integration/controlplanes.sh sets it.
const reportVariable = "XDSRELAY_CONTROL_PLANES_REPORT"

// patience is how long anything may take that must happen: the programs share the processors
// with whatever else there is.
const patience = 2 * time.Minute

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// built skips a test where no control planes were built.
func built(t *testing.T) {
	t.Helper()
	if os.Getenv(reportVariable) == "" {
		t.Skip("only make soak SUITE=control-planes builds the control planes")
	}
}

// binary is the Envoy that the tests run.
func binary(t *testing.T) string {
	t.Helper()
	built(t)
	path, err := envoyproc.Find()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// report adds a line to the report when the test ends.
func report(t *testing.T, of *subject, version func() string) {
	t.Helper()
	t.Cleanup(func() {
		result := "passed"
		if t.Failed() {
			result = "FAILED"
		}
		file, err := os.OpenFile(os.Getenv(reportVariable), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			t.Error(err)
			return
		}
		defer file.Close()
		if _, err := file.WriteString(result + " " + of.recipe + " " + of.name + " " + version() + "\n"); err != nil {
			t.Error(err)
		}
	})
}
