package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/config"
)

// TestConfigPrint_OPS6 prints a configuration with all defaults, which is a configuration with the same values.
func TestConfigPrint_OPS6(t *testing.T) {
	file := write(t, "xdsrelay.yaml", good)
	got := xdsrelay(t, "config", "print", "--config", file, "--log-level", "debug")
	for _, want := range []string{"\n  level: debug\n", "\n  linger: 5m\n", "\n    settle: 1s\n"} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in %+v", want, got)
		}
	}
	again := xdsrelay(t, "config", "print", "--config", write(t, "printed.yaml", got.stdout))
	if got.code != 0 || again != got {
		t.Errorf("%+v", again)
	}
	bad := write(t, "bad.yaml", "server: {lisen: x}\n")
	if got := xdsrelay(t, "config", "print", "-c", bad); got.code != cli.ExitFailure || !strings.Contains(got.stderr, "did you mean") || got.stdout != "" {
		t.Errorf("%+v", got)
	}
}

func TestConfigSchema_OPS6(t *testing.T) {
	got := xdsrelay(t, "config", "schema")
	if got.code != 0 || got.stdout != config.JSONSchema() || !json.Valid([]byte(got.stdout)) {
		t.Errorf("exit code %d, %d bytes, %s", got.code, len(got.stdout), got.stderr)
	}
}
