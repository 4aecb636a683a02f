package integration

import (
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// folder is a control plane made of files.
type folder struct {
	t    testing.TB
	path string
}

func newFolder(t testing.TB) *folder {
	t.Helper()
	return &folder{t, t.TempDir()}
}

// put replaces a file by renaming, as those do who want no half of it read.
func (f *folder) put(name, contents string) {
	f.t.Helper()
	whole := filepath.Join(f.path, name)
	if err := os.WriteFile(whole+".new", []byte(contents), 0o600); err != nil {
		f.t.Fatal(err)
	}
	if err := os.Rename(whole+".new", whole); err != nil {
		f.t.Fatal(err)
	}
}

func (f *folder) remove(name string) {
	f.t.Helper()
	if err := os.Remove(filepath.Join(f.path, name)); err != nil {
		f.t.Fatal(err)
	}
}

// clusterFile is a file of clusters, "name=stat" each.
func clusterFile(version string, clusters ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version_info: %q\ntype_url: %s\nresources:\n", version, clusterType)
	for _, c := range clusters {
		name, stat, _ := strings.Cut(c, "=")
		fmt.Fprintf(&b, "- {\"@type\": %s, name: %q, alt_stat_name: %q}\n", clusterType, name, stat)
	}
	if len(clusters) == 0 {
		b.WriteString("  []\n")
	}
	return b.String()
}

func endpointFile(version string, names ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "version_info: %q\ntype_url: %s\nresources:\n", version, endpointType)
	for _, name := range names {
		fmt.Fprintf(&b, "- {\"@type\": %s, cluster_name: %q}\n", endpointType, name)
	}
	if len(names) == 0 {
		b.WriteString("  []\n")
	}
	return b.String()
}

// fromFiles makes the relay's first upstream read a folder.
func fromFiles(f *folder) func(*config.Config) {
	return func(c *config.Config) {
		u := config.DefaultUpstream()
		u.Name, u.Path, u.Default, u.APIType = "files", f.path, true, ""
		c.Upstreams = append([]config.Upstream{u}, c.Upstreams...)
	}
}

func joined(t testing.TB, relay *testRelay, name string) *client {
	t.Helper()
	c := newClient(t, relay.addr, name)
	if err := c.connect(true); err != nil {
		t.Fatal(err)
	}
	return c
}

// removals are the names that the client was told of as removed, or not existing.
func (c *client) removals() map[string]int {
	n := make(map[string]int)
	for _, r := range c.responses() {
		for _, name := range r.RemovedResources {
			n[name]++
		}
	}
	return n
}

// sent says how often each resource of a type was sent.
func (c *client) sent(typeURL string) map[string]int {
	n := make(map[string]int)
	for _, r := range c.responses() {
		for _, x := range r.Resources {
			if r.TypeUrl == typeURL {
				n[x.Name]++
			}
		}
	}
	return n
}

// awaitContent waits until a resource holds some text.
func (c *client) awaitContent(t testing.TB, typeURL, name, content string) {
	t.Helper()
	c.await(t, fmt.Sprintf("%s with %q", name, content), func() bool {
		return strings.Contains(c.state(typeURL)[name], content)
	})
}

// An incremental client of a relay that reads files (VAR-7): what is there, what
// changes, comes and goes, and what does not exist.
func TestFiles_VAR6_VAR7_FILE1(t *testing.T) {
	f := newFolder(t)
	f.put("clusters.yaml", clusterFile("1", "a=one", "b=one"))
	f.put("endpoints.yaml", endpointFile("1", "a"))
	relay := startRelay(t, fromFiles(f))
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, []string{"a", "later", "never"}, nil)
	c.awaitHolding(t, clusterType, "a", "b")
	c.awaitHolding(t, endpointType, "a")
	c.await(t, "RES-6 names that are in no file are absent at once", func() bool {
		return c.removals()["later"] == 1 && c.removals()["never"] == 1
	})

	f.put("clusters.yaml", clusterFile("2", "a=two", "b=one"))
	c.awaitContent(t, clusterType, "a", "two")
	if n := c.sent(clusterType)["b"]; n != 1 {
		t.Errorf("RES-1: what did not change was sent %d times", n)
	}
	f.put("clusters.yaml", clusterFile("3", "a=two", "b=one", "c=one"))
	c.awaitHolding(t, clusterType, "a", "b", "c")
	f.put("clusters.yaml", clusterFile("4", "a=two", "c=one"))
	c.awaitHolding(t, clusterType, "a", "c")
	f.put("more.yaml", endpointFile("1", "later"))
	c.awaitHolding(t, endpointType, "a", "later")

	// RES-8: of a type that is not full-state what is missing stays.
	f.put("endpoints.yaml", endpointFile("2"))
	f.put("clusters.yaml", clusterFile("5", "a=three"))
	c.awaitHolding(t, clusterType, "a")
	c.awaitHolding(t, endpointType, "a", "later")
	fresh := joined(t, relay, "fresh") // SUB-12: names beside the wildcard
	fresh.subscribe(clusterType, []string{"a", "c"}, nil)
	fresh.awaitHolding(t, clusterType, "a")
	fresh.await(t, "an absent name of the second table", func() bool { return fresh.removals()["c"] == 1 })
	f.remove("clusters.yaml")
	c.awaitHolding(t, clusterType)
	fresh.awaitHolding(t, clusterType)
	relay.consistent(t)
}

// A broken file keeps what it held, is counted, logged and shown, and its contents
// are told nowhere.
func TestBrokenFile_VAR6_ACK6_OPS6(t *testing.T) {
	const secret = "hunter2"
	f := newFolder(t)
	f.put("clusters.yaml", clusterFile("1", "a=one"))
	relay := startRelay(t, fromFiles(f))
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"*"}, nil)
	c.awaitHolding(t, clusterType, "a")
	f.put("clusters.yaml", clusterFile("2", "a=two")+"  "+secret+": [\n")
	waitFor(t, "the counter", func() bool {
		_, body := relay.get(t, "/metrics")
		return strings.Contains(body, `xdsrelay_upstream_file_errors_total{upstream="files"} 1`)
	})
	_, shown := relay.get(t, "/upstreams")
	for where, text := range map[string]string{"/upstreams": shown, "the log": relay.log.String()} {
		if !strings.Contains(text, "clusters.yaml:") {
			t.Errorf("VAR-6: %s does not tell of the broken file: %s", where, text)
		}
		if strings.Contains(text, secret) {
			t.Errorf("OPS-6: %s quotes the file: %s", where, text)
		}
	}
	late := joined(t, relay, "late")
	late.subscribe(clusterType, []string{"*"}, nil)
	late.awaitContent(t, clusterType, "a", "one")
	f.put("clusters.yaml", clusterFile("3", "a=three"))
	for _, c := range []*client{c, late} {
		c.awaitContent(t, clusterType, "a", "three")
	}
	if _, shown := relay.get(t, "/upstreams"); strings.Contains(shown, "unusable_files") {
		t.Errorf("a file that was mended is still shown as broken: %s", shown)
	}
	relay.consistent(t)
}

// Nothing is said of what may be in a file that was never valid (RES-2), nor before
// the path was read.
func TestFilesNeverRead_VAR6_RES2(t *testing.T) {
	f := newFolder(t)
	inner := &folder{t, filepath.Join(f.path, "inner")}
	relay := startRelay(t, fromFiles(inner))
	warm := joined(t, relay, "warm")
	warm.subscribe(clusterType, []string{"*"}, nil)
	waitFor(t, "the missing path", func() bool {
		_, body := relay.get(t, "/upstreams")
		return strings.Contains(body, "unusable_files") && strings.Contains(body, `"state": "connecting"`)
	})
	if code, body := relay.get(t, "/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "files") {
		t.Errorf("ready before the path was read: %d %s", code, body)
	}
	if err := os.Mkdir(inner.path, 0o700); err != nil {
		t.Fatal(err)
	}
	inner.put("bad.yaml", "resources: [\n")
	inner.put("good.yaml", clusterFile("1", "a=one"))
	warm.awaitHolding(t, clusterType, "a")
	warm.subscribe(endpointType, []string{"x"}, nil)
	warm.subscribe(clusterType, []string{"a"}, nil)
	waitFor(t, "readiness", func() bool {
		code, _ := relay.get(t, "/readyz")
		return code == http.StatusOK
	})
	if n := warm.removals(); len(n) != 0 {
		t.Errorf("RES-2: told that %v do not exist while a file could not be read", slices.Collect(maps.Keys(n)))
	}
	inner.put("bad.yaml", endpointFile("1", "y"))
	warm.await(t, "the name that is in no file after all", func() bool { return warm.removals()["x"] == 1 })
	relay.consistent(t)
}

// The authority of some xdstp names is served from files beside a control plane that
// serves the rest.
func TestFilesOfAnAuthority_VAR6_GLOB7_LOC3(t *testing.T) {
	f := newFolder(t)
	name := func(id string) string { return "xdstp://files/envoy.config.cluster.v3.Cluster/dir/" + id }
	f.put("clusters.yaml", clusterFile("1", name("a")+"=one", name("b")+"=one"))
	p := newPlane(t)
	p.set(clusterType, "opaque", false)
	relay := startRelay(t, func(c *config.Config) {
		fromFiles(f)(c)
		c.Upstreams[0].Default, c.Upstreams[0].Authorities = false, []string{"files"}
	}, p.addr)
	c := joined(t, relay, "client")
	c.subscribe(clusterType, []string{"opaque", name("*"), "xdstp://files/envoy.config.cluster.v3.Cluster/none/*"}, nil)
	c.awaitHolding(t, clusterType, "opaque", name("a"), name("b"))
	c.await(t, "GLOB-4 the empty glob", func() bool {
		return c.removals()["xdstp://files/envoy.config.cluster.v3.Cluster/none/*"] == 1
	})
	f.put("clusters.yaml", clusterFile("2", name("b")+"=two", name("c")+"=one"))
	c.awaitHolding(t, clusterType, "opaque", name("b"), name("c"))
	c.awaitContent(t, clusterType, name("b"), "two")
	relay.consistent(t)
}
