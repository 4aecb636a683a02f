package downstream

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
)

// live is what is in use after a garbage collection.
func live() int64 {
	var m runtime.MemStats
	for range 3 { // what finalizers and pools still hold goes too
		runtime.GC()
	}
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// A request may have the relay keep four times its bytes, and nothing of it is left when its client has gone, but
// names that the control plane has not answered: they stay asked for until they are evicted (ABS-3). The control plane is
// away, so that the test's keeps nothing.
func TestRequestMemory_LIM3(t *testing.T) {
	const (
		factor = 4
		slack  = 2 << 20 // of what the test, gRPC and the runtime keep
	)
	nobody := func(prefix string, n, bytes int) []string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("%s%08d%s", prefix, i, strings.Repeat("n", bytes))
		}
		return names
	}
	versions := func() map[string]string {
		all := make(map[string]string)
		for _, name := range nobody(ofA("d/"), 100_000, 20) {
			all[name] = "1"
		}
		return all
	}
	for name, r := range map[string]func() *request{
		"names of 60 KiB": func() *request {
			return &request{TypeUrl: clusterType, ResourceNamesSubscribe: nobody("", 200, 60<<10)}
		},
		"names that are too long": func() *request {
			return &request{TypeUrl: clusterType, ResourceNamesSubscribe: nobody("", 120, 100<<10)}
		},
		"names of nobody": func() *request {
			return &request{TypeUrl: clusterType, ResourceNamesSubscribe: nobody("xdstp://nobody/envoy.config.cluster.v3.Cluster/", 100_000, 50)}
		},
		"presented versions": func() *request { return &request{TypeUrl: clusterType, InitialResourceVersions: versions()} },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.away, h.a.away = true, true
				c := h.client()
				c.subscribe(clusterType, "first")
				h.quiet()
				before := live()
				sent := r()
				size := int64(proto.Size(sent))
				c.send(sent) // the last time that it is used
				h.quiet()
				c.take()
				c.all = nil
				kept := live() - before
				t.Logf("a request of %d KiB has %d KiB kept", size>>10, kept>>10)
				if kept > factor*size+slack {
					t.Errorf("a request of %d bytes has %d kept", size, kept)
				}
				c.cancel()
				h.quiet()
				if left := live() - before; left > slack && name != "names of 60 KiB" {
					t.Errorf("%d bytes are left of a request of %d bytes", left, size)
				}
			}, func(c *Config) {
				c.PerClient = ClientLimits{Subscriptions: 100_000, NamesBytes: 16 << 20}
			})
		})
	}
}
