package downstream

import (
	"net/http"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/quota"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

// No default refuses 50,000 isolated Envoys of one identity behind one address.
func TestFleetOfDefaults_LIM1(t *testing.T) {
	const envoys = 50_000
	l := config.Default().Limits
	var all quota.Usage
	var members []quota.Client
	come := func(n int, who quota.Client) {
		t.Helper()
		others := func(yield func(quota.Client, int) bool) {
			for _, other := range members {
				if !yield(other, 1) {
					return
				}
			}
		}
		for range n {
			if v := all.Admit(quota.Limit{Most: l.Streams, Share: l.Share.Part()}, len(members), 1, who, others); v != quota.Admitted {
				t.Fatalf("after %d streams the verdict is %d", len(members), v)
			}
			members = append(members, who)
		}
	}
	come(envoys, quota.ClientOf(&keyer.Peer{SPIFFE: "spiffe://td/fleet", Addr: "10.0.0.1:1"}))
	come(envoys/2, quota.ClientOf(&keyer.Peer{SPIFFE: "spiffe://td/others", Addr: "10.0.0.2:1"})) // and others find room beside them
	if l.Scopes != 0 && l.Scopes < envoys {
		t.Errorf("there is room for %d scopes", l.Scopes)
	}
}

// A stream or poll too many ends with a status that has its client come again.
func TestStreams_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		h.opaque.real(clusterType, "1", "a")
		kept := h.client()
		kept.subscribe(clusterType, "a")
		kept.wants("Cluster +a=1")
		held := h.poller("/v3/discovery:clusters", "a")
		held.poll().accepts("200 a=1")
		held.poll().isHeld()
		refused := func(limit Limit) {
			h.Helper()
			p := h.poller("/v3/discovery:clusters", "a").poll()
			if p.answer.Code != http.StatusServiceUnavailable || p.answer.Header().Get("Retry-After") == "" ||
				!strings.Contains(p.answer.Body.String(), "limits."+string(limit)) {
				h.Errorf("the poll's answer is %d %s, with %v", p.answer.Code, p.answer.Body, p.answer.Header())
			}
		}
		more := h.client()
		more.endedWith(codes.Unavailable, "limits.streams")
		refused(LimitStreams)
		h.limited(LimitStreams, 2)
		h.advance(restWait) // the poll is answered
		held.wants("304")
		next := h.client()
		next.subscribe(clusterType, "a")
		next.wants("Cluster +a=1")
		h.server.SetLimits(Limits{PerClient: ClientLimits{Streams: 4, Share: 0.25}, RESTWait: restWait})
		held.poll().isHeld()
		refused(LimitShare)
		h.limited(LimitShare, 1)
		h.opaque.real(clusterType, "2", "a")
		kept.wants("Cluster +a=2")
	}, func(c *Config) { c.PerClient, c.RESTWait = ClientLimits{Streams: 2, Share: 1}, restWait })
}
