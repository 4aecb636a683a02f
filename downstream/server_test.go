package downstream

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestNewServer_Services(t *testing.T) {
	const health = "grpc.health.v1.Health"
	for _, tt := range []struct {
		name  string
		debug bool
		want  []string
	}{
		{"nothing to look inside with by default", false, []string{health}},
		{"debug services", true, []string{
			"grpc.channelz.v1.Channelz", health,
			"grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection",
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := NewServer(Config{DebugServices: tt.debug})
			defer s.Stop()
			got := slices.Sorted(maps.Keys(s.grpc.GetServiceInfo()))
			got = slices.DeleteFunc(got, func(name string) bool { return strings.Contains(name, "DiscoveryService") })
			if !slices.Equal(got, tt.want) {
				t.Errorf("serves %q, want %q", got, tt.want)
			}
		})
	}
}

// A server without an observer and a logger serves as well.
func TestNewServer_Silent(t *testing.T) {
	bubble(t, func(h *harness) {
		h.opaque.set(clusterType, "1", "a")
		c := h.client()
		c.subscribe(clusterType, "a", "xdstp://")
		c.wants("Cluster -xdstp:// !xdstp://=InvalidArgument", "Cluster +a=1")
		c.nack(&response{TypeUrl: clusterType, Nonce: "2"}, "no")
		h.advance(ackWait)
		h.opaque.set(clusterType, "2", "a")
		c.wants("Cluster +a=2")
	}, func(c *Config) { c.Observer = nil })
}
