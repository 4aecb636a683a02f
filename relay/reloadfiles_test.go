package relay

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
)

const endpointsType = "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment"

// What is missing from files, of a type that is not full-state, stays with those who have
// it, however the files are read from now on.
func TestReload_files_RES8(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.yaml")
	write := func(path, version string, names ...string) {
		t.Helper()
		var text strings.Builder
		text.WriteString("version_info: '" + version + "'\nresources:\n")
		for _, name := range names {
			fmt.Fprintf(&text, "- {'@type': %s, cluster_name: %s}\n", endpointsType, name)
		}
		if err := os.WriteFile(path+".new", []byte(text.String()), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
	}
	write(file, "1", "x", "y", "z")
	u := config.DefaultUpstream()
	u.Name, u.Path, u.Poll.Interval = "files", file, config.Duration(100*time.Millisecond)
	r := run(t, configOf(u))
	c := r.join("n")
	c.Subscribe(endpointsType, "x", "y", "z")
	has := func(names ...string) {
		t.Helper()
		c.comesTo(fmt.Sprint(names), func() bool {
			for _, name := range names {
				if c.held[name] == "" {
					return false
				}
			}
			return len(c.held) == len(names)
		})
	}
	has("x", "y", "z")
	write(file, "2", "x", "z")
	r.reload(func(c *config.Config) { c.Upstreams[0].Poll.Interval = config.Duration(200 * time.Millisecond) })
	other := filepath.Join(t.TempDir(), "other.yaml")
	write(other, "3", "x", "new")
	missing := filepath.Join(t.TempDir(), "missing.yaml")
	r.reload(func(c *config.Config) { c.Upstreams[0].Path = missing })
	r.reload(func(c *config.Config) { c.Upstreams[0].Path = other })
	c.Subscribe(endpointsType, "new")
	c.comesTo("new", func() bool { return c.held["new"] != "" })
	has("x", "y", "z", "new")
	if got := c.lost(); got != "" {
		t.Errorf("RES-8: the client lost %q", got)
	}
	r.check()
}
