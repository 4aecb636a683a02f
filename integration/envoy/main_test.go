// Package envoy holds tests of the whole with real Envoys: each scenario is played
// with an Envoy directly at a control plane and with one behind the relay, in every
// form of the protocol, and judged by the Envoy's admin port and by HTTP requests.
package envoy

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/envoyproc"
	"github.com/xdsrelay/xdsrelay/internal/testkit/parallel"
	"go.uber.org/goleak"
)

var update = flag.Bool("update", false, "rewrite the table of real Envoys in docs/differences.md")

// plays is how many plays go on at once. Most of the time they wait for an Envoy's
// clocks, so that there may be more of them than processors.
const plays = 4

func TestMain(m *testing.M) {
	if file := os.Getenv(childVariable); file != "" {
		if err := child(file); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	parallel.Tests(plays)
	goleak.VerifyTestMain(m)
}

// The variables that "make integration" and "make soak" set.
const (
	// reportVariable names the file that the results are written to. Where it is set
	// a test that cannot run is a failure; in a plain "go test" it is skipped.
	reportVariable = "XDSRELAY_INTEGRATION_REPORT"
	// soakVariable has the scenarios run that take too long for each change, and
	// those that there are in full length.
	soakVariable = "XDSRELAY_SOAK"
)

// soaking reports whether time does not matter.
func soaking() bool { return os.Getenv(soakVariable) != "" }

// binary is the Envoy that the tests run. Without one they are skipped.
func binary(t *testing.T) string {
	t.Helper()
	path, err := envoyproc.Find()
	switch {
	case err == nil:
	case os.Getenv(reportVariable) != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
	return path
}
