// Package alerts holds tests of deploy/prometheus/rules.yaml: by promtool, and by a Prometheus that scrapes relays to
// which the faults are done that the alerts are about.
package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reportVariable is set by "make integration": a test that cannot run is a failure then. In a plain "go test" it is
// skipped.
const reportVariable = "XDSRELAY_INTEGRATION_REPORT"

const rules = "../../deploy/prometheus"

// program finds prometheus or promtool: in $XDSRELAY_PROMETHEUS, a folder, where integration/run.sh puts Debian's, or in
// $PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("XDSRELAY_PROMETHEUS"), "../testdata/prometheus/usr/bin"} {
		if path, err := filepath.Abs(filepath.Join(dir, name)); err == nil && dir != "" {
			if _, err := os.Stat(path); err == nil {
				return path
			}
		}
	}
	path, err := exec.LookPath(name)
	if err == nil {
		return path
	}
	missing := fmt.Sprintf("no %s: install Debian's package prometheus, or have XDSRELAY_PROMETHEUS name a folder with it", name)
	if os.Getenv(reportVariable) != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// Each alert fires for its fault alone, and by its own time.
func TestRules_OPS6(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), program(t, "promtool"), "test", "rules", "rules_test.yaml")
	cmd.Dir = rules
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
}
