package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

func TestVersion(t *testing.T) {
	if got := xdsrelay(t, "version"); got.code != 0 || !strings.HasPrefix(got.stdout, "xdsrelay ") {
		t.Errorf("%+v", got)
	}
	for _, flag := range []string{"--version", "-v"} {
		if got := xdsrelay(t, flag); got != xdsrelay(t, "version") {
			t.Errorf("%s: %+v", flag, got)
		}
	}
	got := xdsrelay(t, "version", "--output", "json")
	var b cli.Build
	if err := json.Unmarshal([]byte(got.stdout), &b); err != nil || b.Version == "" || b.Go == "" {
		t.Errorf("%+v, %v", got, err)
	}
}
