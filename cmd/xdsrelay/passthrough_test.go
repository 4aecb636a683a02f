package main

import (
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
)

// One command has a client served 1:1, and one ends it. It says before how many streams that is about, and asks.
func TestPassthrough(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	r := serveReplica(t, controlPlane(t, linear, nil), "")
	lines, _, _ := background(t, "watch", r.xds, "--type", "cds", "--output", "json")
	until(t, lines, map[string]string{"event": "added", "name": "cart"})
	for _, tt := range []struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		{[]string{"on"}, cli.ExitUsage, "", "--yes"},
		{[]string{"up"}, cli.ExitUsage, "", "invalid argument"},
		{nil, cli.ExitUsage, "", "expected xdsrelay passthrough on|off, got 0 arguments"},
		{[]string{"off", "--yes"}, cli.ExitFailure, "no client is served 1:1", "xdsrelay status shows"},
		{[]string{"on", "--yes", "--upstream", "b"}, cli.ExitFailure, `there is no upstream "b"`, "1 of 1 relays failed"},
		{[]string{"on", "--yes", "--upstream", "a"}, 0, "1 client stream connects again, and each opens one", "1 client stream would each open a stream"},
		{[]string{"on", "--yes", "--upstream", "a"}, cli.ExitFailure, "it is so already", "nothing to do"},
	} {
		got := xdsrelay(t, append([]string{"passthrough", "--admin", r.admin}, tt.args...)...)
		if got.code != tt.code || !strings.Contains(got.stdout, tt.stdout) || !strings.Contains(got.stderr, tt.stderr) {
			t.Errorf("%q: %+v", tt.args, got)
		}
	}
	holds(t, func() bool {
		return strings.Contains(xdsrelay(t, "clients", "--admin", r.admin).stdout, "passed")
	})
	if got := xdsrelay(t, "status", "--admin", r.admin); got.code != 0 && got.code != cli.ExitFailure || !strings.Contains(got.stdout, "1:1") ||
		!strings.Contains(got.stdout, "next: xdsrelay passthrough off --upstream a --yes") {
		t.Errorf("%+v", got)
	}
	if err := linear.UpdateResource("new", cluster("new", 1)); err != nil {
		t.Fatal(err)
	}
	until(t, lines, map[string]string{"event": "added", "name": "new"})
	if got := xdsrelay(t, "passthrough", "off", "--yes", "--admin", r.admin); got.code != 0 || !strings.Contains(got.stdout, "1 client stream connects again, and the cache serves them") {
		t.Errorf("%+v", got)
	}
	holds(t, func() bool {
		return strings.Contains(xdsrelay(t, "clients", "--admin", r.admin).stdout, "current")
	})
}
