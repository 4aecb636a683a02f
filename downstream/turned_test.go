package downstream

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
	"github.com/xdsrelay/xdsrelay/internal/testkit/logtest"
)

// mute connects the client edge-1, which asks for clusters, and answers nothing: no pings either.
func (h *harness) mute() {
	h.Helper()
	w := h.attacker()
	body, err := proto.Marshal(&request{Node: &corev3.Node{Id: "edge-1"}, TypeUrl: clusterType})
	if err != nil {
		h.Fatal(err)
	}
	if err := w.Send(h.Context(), h.opens(w), frames.Message(body)); err != nil {
		h.Fatal(err)
	}
	h.quiet()
}

// A connection that the relay closes while it drains is no matter of keepalive's (OPS-4).
func TestGoneWithDrain_OPS4(t *testing.T) {
	bubble(t, func(h *harness) {
		h.mute()
		h.server.beginDrain(time.Hour)
		h.advance(30 * time.Second)
		if gone := h.server.Gone(); len(gone) != 1 || gone[0].Why != WhyDrain {
			h.Errorf("gone: %+v", gone)
		}
	}, func(c *Config) {
		c.GRPC = []grpc.ServerOption{grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: time.Second})}
	})
}

// Each client that is refused, or that keepalive ends, has one line with its address, its node and the reason (LIM-4).
func TestTurnedAway_LIM1_LIM4(t *testing.T) {
	const refuses, ended = `msg="the relay refuses a client"`, `msg="keepalive ended a client's connection`
	for name, c := range map[string]struct {
		change func(*Config)
		run    func(h *harness)
		want   []string
	}{
		"a node over the limit": {
			func(c *Config) { c.PerClient.NodeBytes = 100 },
			func(h *harness) {
				c := h.client()
				c.send(&request{TypeUrl: clusterType, Node: &corev3.Node{Id: "edge-1", Cluster: strings.Repeat("c", 1000)}})
				c.endedWith(codes.ResourceExhausted, "the node has")
			},
			[]string{refuses, "node=edge-1", "code=ResourceExhausted", `reason="the node has 1011 bytes, at most 100 are served"`},
		},
		"no place for a stream": {
			func(c *Config) { c.PerClient.Streams, c.PerClient.Share = 1, 1 },
			func(h *harness) {
				h.client().subscribe(clusterType, "a")
				h.quiet()
				h.client().endedWith(codes.Unavailable, "limits.streams")
			},
			[]string{refuses, "code=Unavailable", "limits.streams"},
		},
		"no place for a health check": {
			func(c *Config) { c.PerClient.Streams, c.PerClient.Share = 1, 1 },
			func(h *harness) {
				h.client().subscribe(clusterType, "a")
				h.quiet()
				if h.check(h.dial()) == nil {
					h.Error("a health check is answered")
				}
			},
			[]string{refuses, "code=Unavailable", "limits.streams"},
		},
		"no first request": {
			func(c *Config) { c.PerClient.FirstRequest = time.Second },
			func(h *harness) {
				c := h.client()
				h.advance(2 * time.Second)
				c.endedWith(codes.DeadlineExceeded, "no request")
			},
			[]string{refuses, "code=DeadlineExceeded", "no request"},
		},
		"another type than that of the service": {
			func(*Config) {},
			func(h *harness) {
				c := h.client()
				c.send(&request{Node: &corev3.Node{Id: "edge-1"}})
				c.endedWith(codes.InvalidArgument, "type_url")
			},
			[]string{refuses, "code=InvalidArgument"},
		},
		"a poll": {
			func(c *Config) { c.PerClient.NodeBytes = 100 },
			func(h *harness) {
				p := h.poller(clusterPath)
				p.next.Node = &corev3.Node{Id: "edge-1", Cluster: strings.Repeat("c", 1000)}
				p.poll()
			},
			[]string{refuses, "node=edge-1", "code=ResourceExhausted"},
		},
		"a client that answers no pings": {
			func(c *Config) {
				c.GRPC = []grpc.ServerOption{grpc.KeepaliveParams(keepalive.ServerParameters{Time: 10 * time.Second, Timeout: time.Second})}
			},
			func(h *harness) {
				h.mute()
				h.advance(30 * time.Second)
			},
			[]string{ended, "node=edge-1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var log logtest.Text
			bubble(t, func(h *harness) {
				c.run(h)
				h.quiet()
			}, func(conf *Config) { conf.Log = slog.New(slog.NewTextHandler(&log, nil)) }, c.change)
			text := log.String()
			lines := 0
			for line := range strings.Lines(text) {
				if !strings.Contains(line, c.want[0]) {
					continue
				}
				lines++
				for _, part := range append([]string{"peer="}, c.want...) {
					if !strings.Contains(line, part) {
						t.Errorf("LIM-4: the line lacks %s: %s", part, line)
					}
				}
			}
			if lines != 1 {
				t.Errorf("LIM-4: %d lines, want one:\n%s", lines, text)
			}
		})
	}
}
