package downstream

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
)

// longNames are n names of a number of bytes.
func longNames(n, bytes int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("%02d%s", i, strings.Repeat("n", bytes-2))
	}
	return names
}

// All names of a stream have so many bytes together. A name beyond that is refused by itself.
func TestNamesBytes_LIM1_ABS4(t *testing.T) {
	const each = 100
	bytesLimited := func(c *Config) {
		c.PerClient = ClientLimits{NamesBytes: 3 * each}
	}
	names := longNames(8, each)
	refused := func(names ...string) string {
		var b strings.Builder
		for _, name := range names {
			fmt.Fprintf(&b, " -%s", name)
		}
		for _, name := range names {
			fmt.Fprintf(&b, " !%s=ResourceExhausted", name)
		}
		return "Cluster" + b.String()
	}
	for _, s := range []scenario{
		{"an incremental client", func(h *harness) {
			h.opaque.set(clusterType, "1", names...)
			c := h.client()
			c.subscribe(clusterType, names[:4]...)
			c.wants(refused(names[3]), "Cluster +"+names[0]+"=1 +"+names[1]+"=1 +"+names[2]+"=1")
			h.limited(LimitNames, 1)
			c.subscribe(clusterType, "*") // which takes nothing
			if got := holds(c.take()); len(got) != len(names)-3 {
				h.Errorf("the client holds %d resources", len(got))
			}
			c.subscribe(listenerType, names[4])
			if got := c.take(); len(got) != 1 || got[0].ResourceErrors[0].GetErrorDetail().GetCode() != int32(codes.ResourceExhausted) {
				h.Errorf("the answer is %v", got)
			}
			c.unsubscribe(clusterType, "*")
			c.subscribe(clusterType, names[0]) // again
			c.wants("Cluster +" + names[0] + "=1")
			c.send(&request{TypeUrl: clusterType, ResourceNamesSubscribe: names[3:4], ResourceNamesUnsubscribe: names[:1]})
			c.wants("Cluster +" + names[3] + "=1")
			h.limited(LimitNames, 2)
			h.limited(LimitSubscriptions, 0)
		}},
		{"globs and other spellings count too", func(h *harness) {
			c := h.client()
			c.subscribe(clusterType, ofA(strings.Repeat("d", 2*each)+"/*"), ofA(strings.Repeat("e", 2*each)+"/*"))
			c.take()
			h.limited(LimitNames, 1)
			c.unsubscribe(clusterType, ofA(strings.Repeat("d", 2*each)+"/*"))
			c.subscribe(clusterType, ofA(strings.Repeat("e", 2*each)+"/*"))
			c.take()
			h.limited(LimitNames, 1)
		}},
		{"a client of the state of the world, which repeats them", func(h *harness) {
			h.opaque.set(endpointType, "1", names...)
			c := h.state()
			c.asks(endpointType, names[:4]...)
			c.wants("ClusterLoadAssignment !"+names[3]+"=ResourceExhausted", "ClusterLoadAssignment "+names[0]+"@1 "+names[1]+"@1 "+names[2]+"@1")
			c.asks(endpointType, names[1:4]...)
			c.wants("ClusterLoadAssignment " + names[3] + "@1")
		}},
		{"refused names have answers up to as many bytes again", func(h *harness) {
			c := h.state()
			c.asks(clusterType, names...)
			h.quiet()
			h.limited(LimitNames, 5)
			st := h.onlyStream()
			if n, bytes := st.types.remembered(); n != 3 || bytes != 3*each {
				h.Errorf("%d names with %d bytes are remembered", n, bytes)
			}
			c.asks(clusterType, names[0])
			h.quiet()
			if n, bytes := st.types.remembered(); n != 0 || bytes != 0 {
				h.Errorf("%d names with %d bytes are remembered", n, bytes)
			}
		}},
		{"what a client presents of globs is remembered up to so many bytes", func(h *harness) {
			versions := map[string]string{}
			for _, name := range names {
				versions[ofA("d/"+name)] = "1"
			}
			c := h.client()
			c.send(&request{TypeUrl: clusterType, InitialResourceVersions: versions})
			h.quiet()
			if n := len(h.onlyStream().types.list[0].later.names); n != 2 {
				h.Errorf("%d names are remembered, want 2", n)
			}
		}},
		{"a poll", func(h *harness) {
			h.opaque.real(clusterType, "1", names[0])
			h.poller(clusterPath, names[:4]...).poll()
			h.limited(LimitNames, 1)
		}},
	} {
		t.Run(s.name, func(t *testing.T) { bubble(t, s.run, bytesLimited) })
	}
}

// onlyStream returns the only stream. Nothing may be under way.
func (h *harness) onlyStream() *stream {
	h.Helper()
	for _, m := range h.server.present() {
		return m.(*stream)
	}
	h.Fatal("there is no stream")
	return nil
}

// Clients may invent types. So many are asked for that the control plane never answered; names of others are refused
// by themselves, and nothing is removed (RES-7).
func TestUnknownTypes_LIM1_LIM2(t *testing.T) {
	invented := func(n int) string { return fmt.Sprint("type.googleapis.com/invented.v1.Type", n) }
	bubble(t, func(h *harness) {
		h.opaque.silent = true
		c, other := h.client(), h.client()
		c.subscribe(invented(1), "x")
		c.subscribe(invented(2), "x")
		c.subscribe(invented(2), "*") // the same type
		c.wants()
		refused := func(c *client, typeURL string) {
			h.Helper()
			c.subscribe(typeURL, "x")
			got := c.take()
			if len(got) != 1 || len(got[0].RemovedResources) != 0 || len(got[0].ResourceErrors) != 1 ||
				got[0].ResourceErrors[0].GetErrorDetail().GetCode() != int32(codes.Unavailable) {
				h.Errorf("the answer is %v", got)
			}
		}
		refused(c, invented(3))
		refused(other, invented(4))
		h.limited(LimitTypes, 2)
		other.subscribe(invented(1), "y") // which is asked for already
		other.subscribe(clusterType, "y") // which has a service
		other.wants()
		s := h.state()
		s.asks(invented(3), "x")
		if got := s.take(); len(got) != 1 || len(got[0].ResourceErrors) != 1 {
			h.Errorf("the answer is %v", got)
		}
		c.unsubscribe(invented(2), "x", "*")
		h.quiet()
		s.asks(invented(3), "x", "y") // now there is room
		h.quiet()
		h.limited(LimitTypes, 3)
		c.cancel()
		other.cancel()
		h.quiet()
		last := h.client()
		last.subscribe(invented(5), "x")
		last.wants()
		h.limited(LimitTypes, 3)
	}, func(c *Config) { c.PerClient.UnknownTypes = 2 })
}
