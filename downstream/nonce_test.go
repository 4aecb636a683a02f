package downstream

import (
	"fmt"
	"strings"
	"testing"
)

func TestNonces(t *testing.T) {
	runAll(t, []scenario{
		{"STR-3 ACK-1 who has not read a response cannot acknowledge it", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			h.opaque.set(endpointType, "1", "a")
			c, other := h.slowClient(), h.slowClient()
			c.subscribe(clusterType)
			first := c.wants("Cluster +a=1")[0]
			other.subscribe(clusterType)
			foreign := other.wants("Cluster +a=1")[0].Nonce
			c.subscribe(endpointType, "a")
			second := c.wants("ClusterLoadAssignment +a=1")[0]
			h.opaque.set(clusterType, "2", "a")
			mark := first.Nonce[:markLen]
			for _, nonce := range []string{
				"1", "2", foreign, mark + "2", mark + "", mark + "-1", mark + "01x", mark, strings.ToUpper(mark) + "1",
				first.Nonce + "0", first.Nonce[1:], "a" + first.Nonce, second.Nonce, mark + "18446744073709551617",
			} {
				c.ack(&response{TypeUrl: clusterType, Nonce: nonce})
				c.wants()
			}
			if n := h.seen.count("acked"); n != 0 {
				h.Errorf("%d ACKs counted", n)
			}
			c.ack(first)
			c.wants("Cluster +a=2")
		}},
		{"STR-3 nonces have nothing in common but their length", func(h *harness) {
			c := h.client()
			c.subscribe(clusterType)
			marks := map[string]bool{}
			for i := range 200 {
				h.opaque.set(clusterType, fmt.Sprint(i), "a")
				h.quiet()
			}
			for i, r := range c.take() {
				if want := fmt.Sprint(i + 1); r.Nonce[markLen:] != want || marks[r.Nonce[:markLen]] {
					h.Errorf("the nonce of response %s is %q", want, r.Nonce)
				}
				marks[r.Nonce[:markLen]] = true
			}
			if len(marks) != 200 {
				h.Errorf("%d responses, expected 200", len(marks))
			}
		}},
	})
}
