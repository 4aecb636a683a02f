package downstream

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/logs"
)

func TestAcknowledgements(t *testing.T) {
	runAll(t, []scenario{
		{"STR-7 ACKs and NACKs are not answered", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			got := c.wants("Cluster +a=1")
			c.ack(got[0])
			c.wants()
			c.ack(got[0])
			c.nack(got[0], "on second thoughts")
			c.wants()
			h.advance(time.Hour)
			c.wants()
		}},
		{"ACK-1 error_detail alone tells a NACK", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.ack(c.wants("Cluster +a=1")[0])
			h.opaque.set(clusterType, "2", "a")
			c.nack(c.wants("Cluster +a=2")[0], "")
			h.quiet()
			if acked, nacked := h.seen.count("acked"), h.seen.count("nacked"); acked != 1 || nacked != 1 {
				h.Errorf("%d ACKs and %d NACKs, want one of each", acked, nacked)
			}
		}},
		{"ACK-1 error_detail with warnings alone is an acceptance", func(h *harness) {
			for i, detail := range []string{
				` [{"key": "a", "warn": "old"}, {"key": "b", "warn": ""}]`, // from here on not
				`[]`, `[{"key": "a", "warn": "old"}, {"key": "b", "warn": "", "error": "bad"}]`, `[{"key": "a", "error": "bad"}]`,
				`[{"warn": "old"}]`, `[{"key": "a"}]`, `["old"]`, `[{"key": 1, "warn": "old"}]`, `{"key": "a", "warn": "old"}`, `[`,
			} {
				version := fmt.Sprint(i)
				h.opaque.set(clusterType, version, "a")
				c := h.slowClient()
				c.subscribe(clusterType)
				c.nack(c.wants("Cluster +a=" + version)[0], detail)
				h.quiet()
				if acked, nacked := h.seen.count("acked"), h.seen.count("nacked"); acked != 1 || h.seen.count("warned") != 1 || nacked != i {
					h.Errorf("%s: %d ACKs and %d NACKs", detail, acked, nacked)
				}
			}
		}},
		{"ACK-3 what was rejected is sent again when its content changes, and not before", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.nack(c.wants("Cluster +a=1")[0], "bad")
			c.wants()
			h.advance(time.Hour)
			c.wants()
			h.opaque.set(clusterType, "2", "b")
			c.nack(c.wants("Cluster +b=2")[0], "bad too")
			h.opaque.set(clusterType, "2", "a")
			c.ack(c.wants("Cluster +a=2")[0])
			h.opaque.set(clusterType, "3", "a")
			c.wants("Cluster +a=3")
		}},
		{"ACK-7 a NACK is counted and kept", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.send(&request{TypeUrl: clusterType, Node: node("n")})
			r := c.wants("Cluster +a=1")[0]
			c.nack(r, "no such thing as a")
			s := h.status().Types[clusterType]
			want := Nack{
				At: time.Now(), Nonce: r.Nonce, SystemVersion: "system-1",
				Code: "InvalidArgument", Message: "no such thing as a",
			}
			if s.Nacks != 1 || s.LastNack == nil || *s.LastNack != want || s.Acknowledged {
				h.Errorf("type is shown as %+v, last NACK %+v, want %+v", s, s.LastNack, want)
			}
			h.opaque.set(clusterType, "2", "a")
			c.nack(c.wants("Cluster +a=2")[0], "cluster a: "+strings.Repeat("é", 10_000)+": no such thing")
			s = h.status().Types[clusterType]
			m := s.LastNack.Message
			if s.Nacks != 2 || len(m) > 2*logs.ReasonBytes+64 || !strings.HasPrefix(m, "cluster a: é") || !strings.HasSuffix(m, "é: no such thing") {
				h.Errorf("%d NACKs, the last one's message has %d bytes: %.20s … %s", s.Nacks, len(m), m, m[max(0, len(m)-20):])
			}
			told := h.router.rejections()
			if last := told[len(told)-1]; !strings.HasSuffix(last, " n: "+m) {
				h.Errorf("the control plane is told %.60s …", last)
			}
		}},
		{"ACK-7 a NACK is told to where the response came from, once", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.send(&request{TypeUrl: clusterType, Node: node("n")})
			r := c.wants("Cluster +a=1")[0]
			first := h.opaque.store.Session().Sequence()
			h.opaque.set(clusterType, "2", "a") // held back: the NACK is of what came before
			c.nack(r, "not a")
			c.nack(r, "not a")
			c.ack(c.wants("Cluster +a=2")[0])
			want := []string{fmt.Sprintf("%s %d n: not a", clusterType, first)}
			if got := h.router.rejections(); !slices.Equal(got, want) {
				h.Errorf("told of %q, want %q", got, want)
			}
		}},
		{"ACK-7 who was sent content, and who accepted it, is told once each", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.ack(c.wants("Cluster +a=1 +b=1")[0])
			h.opaque.unset(clusterType, "b")
			h.advance(time.Minute)
			c.ack(c.wants("Cluster -b")[0]) // no content, no word
			h.quiet()
			h.told(clusterType, "sent 1-2", "accepted 1-2")
		}},
		{"ACK-7 an acceptance says what is not answered yet", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			r := c.wants("Cluster +a=1")
			h.advance(ackWait) // Envoy withholds it
			h.opaque.set(clusterType, "2", "a")
			r = append(r, c.wants("Cluster +a=2")...)
			c.ack(r[0])
			c.ack(r[1])
			h.quiet()
			h.told(clusterType, "sent 1-1", "sent 2-2 (1 open)", "accepted 1-1 (2 open)", "accepted 2-2")
		}},
		{"ACK-7 ACK-3 what goes once more in parts is told so, and then alone", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.picky("b")
			c.subscribe(clusterType)
			c.settle()
			h.told(clusterType, "sent 1-2", "rejected 1-2 in parts",
				"sent 1-1 of 1-2", "sent 2-2 of 1-2 (1 open)", "accepted 1-1 of 1-2 (2 open)", "rejected 2-2 of 1-2")
		}},
		{"ACK-7 a list of the state of the world is rejected as a whole", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			h.opaque.settle()
			c := h.stateOn(adsStream, false)
			c.asks(clusterType)
			c.ack(c.wants("Cluster a@1 b@1")[0])
			h.opaque.set(clusterType, "2", "b")
			c.nack(c.wants("Cluster a@1 b@2")[0], "not b")
			h.quiet()
			h.told(clusterType, "sent 1-2", "accepted 1-2", "sent 3-3", "rejected 3-3")
		}},
		{"ACKs of what was never sent are not counted", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			r := c.wants("Cluster +a=1")[0]
			for _, nonce := range []string{"2", "0", "x", "99999999999999999999"} {
				c.send(&request{TypeUrl: clusterType, ResponseNonce: nonce})
			}
			h.opaque.set(clusterType, "2", "a")
			c.wants()
			if n := h.seen.count("acked"); n != 0 {
				h.Errorf("%d ACKs counted", n)
			}
			c.ack(r)
			c.wants("Cluster +a=2")
			c.ack(r) // again
			c.wants()
			if n := h.seen.count("acked"); n != 1 {
				h.Errorf("%d ACKs counted, want 1", n)
			}
		}},
		{"one response is outstanding, and the next is the merged latest state", func(h *harness) {
			h.opaque.set(clusterType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(clusterType)
			r := c.wants("Cluster +a=1 +b=1")[0]
			for _, v := range []string{"2", "3", "4"} {
				h.opaque.set(clusterType, v, "a", "b")
			}
			h.opaque.unset(clusterType, "b")
			c.wants()
			c.ack(r)
			c.wants("Cluster +a=4 -b")
		}},
		{"an answer to a subscription waits for the ACK too", func(h *harness) {
			h.opaque.set(endpointType, "1", "a", "b")
			c := h.slowClient()
			c.subscribe(endpointType, "a")
			r := c.wants("ClusterLoadAssignment +a=1")[0]
			c.subscribe(endpointType, "b")
			c.wants()
			c.send(&request{TypeUrl: endpointType, ResponseNonce: r.Nonce, ResourceNamesSubscribe: []string{"a"}})
			c.wants("ClusterLoadAssignment +a=1 +b=1")
		}},
		{"an overdue ACK is not waited for", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.wants("Cluster +a=1")
			h.advance(ackWait - time.Second)
			h.opaque.set(clusterType, "2", "a")
			c.wants()
			h.advance(time.Second)
			c.wants("Cluster +a=2")
			// The next one is waited for as long as the first.
			h.opaque.set(clusterType, "3", "a")
			h.advance(ackWait - time.Second)
			c.wants()
			h.advance(time.Second)
			c.wants("Cluster +a=3")
			if n := h.seen.count("overdue"); n != 2 {
				h.Errorf("observed %d overdue ACKs, want 2", n)
			}
		}},
		{"an ACK that came late, but before the next response, is none that is overdue", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			r := c.wants("Cluster +a=1")[0]
			h.advance(2 * ackWait)
			c.ack(r)
			c.wants()
			h.opaque.set(clusterType, "2", "a")
			c.wants("Cluster +a=2")
			if n := h.seen.count("overdue"); n != 0 {
				h.Errorf("observed %d overdue ACKs", n)
			}
		}},
		{"an ACK's age is counted from the receipt upstream", func(h *harness) {
			h.opaque.set(clusterType, "1", "a")
			c := h.slowClient()
			c.subscribe(clusterType)
			c.ack(c.wants("Cluster +a=1")[0])
			h.quiet()
			h.opaque.set(clusterType, "2", "a")
			r := c.wants("Cluster +a=2")[0]
			h.advance(3 * time.Second)
			c.ack(r)
			h.quiet()
			if took := h.seen.took; len(took) == 0 || took[len(took)-1] != 3*time.Second {
				h.Errorf("observed %v, want 3s last", took)
			}
		}},
	})
}

// A client that does not read blocks its handler in Send. Its ACK's time limit
// begins when it was sent, and what is due then is not late by what Send took.
func TestAckTimeout_AfterBlockedSend(t *testing.T) {
	bubble(t, func(h *harness) {
		h.sized("1", 8, 100<<10)
		c := h.deafClient()
		c.subscribe(clusterType)
		h.quiet()
		h.advance(time.Hour)
		c.read()
		if n := len(c.take()); n != 8 {
			h.Fatalf("%d responses, want 8", n)
		}
		h.opaque.set(clusterType, "2", "r0000")
		c.wants()
		h.advance(ackWait)
		c.wants("Cluster +r0000=2")
	}, func(c *Config) { c.MaxMessageSize = 128 << 10 })
}
