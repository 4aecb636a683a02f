package alerts

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// The demo changes resources, kills the control plane, has clients join and the control plane come back with another
// state: nothing of this is for an operator at night. The rules have their own times here.
func TestDemoIsQuiet_OPS6(t *testing.T) {
	binary := program(t, "prometheus")
	text, err := os.ReadFile(filepath.Join(rules, "rules.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	demo := filepath.Join(t.TempDir(), "xdsrelay-demo")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", demo, "../../cmd/xdsrelay-demo").CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	admin := fmt.Sprint("127.0.0.1:", ports.Free(t))
	p := startPrometheus(t, binary, string(text), map[string]string{"demo": admin})
	out, err := exec.CommandContext(t.Context(), demo, "--clients", "200", "--duration", "12s", "--admin-listen", admin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if len(p.query("max_over_time(xdsrelay_upstream_staleness_seconds[10m]) > 1")) != 1 {
		t.Error("Prometheus saw no outage")
	}
	for _, labels := range p.query(`count_over_time(ALERTS{alertstate="firing"}[10m])`) {
		t.Errorf("%s fired: %v", labels["alertname"], labels)
	}
}
