package downstream

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer"
	"google.golang.org/grpc/codes"
)

// gathering is a crowd with its members.
type gathering struct {
	*testing.T

	crowd   Crowd
	members []Origin
	places  Places
}

func gather(t *testing.T, streams int, share float64) *gathering {
	t.Helper()
	return &gathering{T: t, places: Places{Most: streams, Share: share}}
}

// come adds so many of one client, and returns the first error.
func (g *gathering) come(n int, addr, spiffe string) error {
	for i := range n {
		p := OriginOf(&keyer.Peer{SPIFFE: spiffe, Addr: fmt.Sprintf("%s:%d", addr, i+1)})
		if err := g.crowd.Admit(len(g.members), slices.Values(g.members), p, g.places); err != nil {
			return err
		}
		g.members = append(g.members, p)
	}
	return nil
}

// leave removes so many, those that came last first.
func (g *gathering) leave(n int) {
	for range n {
		last := len(g.members) - 1
		p := g.members[last]
		g.members = g.members[:last]
		g.crowd.Left(last, p, g.places)
	}
}

func (g *gathering) wants(got, want error) {
	g.Helper()
	if got != want { //nolint:errorlint // the very error
		g.Errorf("with %d streams a client gets %v, want %v", len(g.members), got, want)
	}
}

func TestCrowd_LIM1(t *testing.T) {
	for name, f := range map[string]func(g *gathering){
		"one may have all until half are taken": func(g *gathering) {
			g.wants(g.come(50, "10.0.0.1", "spiffe://td/a"), nil)
			if g.crowd.crowd.Counting() {
				g.Error("who comes from where is counted while there is room")
			}
			g.wants(g.come(1, "10.0.0.1", ""), ErrShared)
			g.wants(g.come(1, "10.0.0.2", "spiffe://td/a"), ErrShared)
			g.wants(g.come(1, "[::ffff:10.0.0.1]", ""), ErrShared)
			g.wants(g.come(25, "10.0.0.2", "spiffe://td/b"), nil)
			g.wants(g.come(1, "10.0.0.2", ""), ErrShared)
			g.wants(g.come(25, "10.0.0.3", ""), nil)
			g.wants(g.come(1, "10.0.0.4", ""), ErrFull)
		},
		"an IPv6 network is one address": func(g *gathering) {
			g.wants(g.come(50, "10.0.0.1", ""), nil)
			g.wants(g.come(15, "[2001:db8::1]", ""), nil)
			g.wants(g.come(10, "[2001:db8::2]", ""), nil)
			g.wants(g.come(1, "[2001:db8::3]", ""), ErrShared)
			g.wants(g.come(1, "[2001:db8:0:1::1]", ""), nil)
		},
		"who is not known is not counted": func(g *gathering) {
			for range 100 {
				g.wants(g.come(1, "a unix socket", ""), nil)
			}
			g.wants(g.come(1, "a unix socket", ""), ErrFull)
		},
		"who leaves makes room": func(g *gathering) {
			g.wants(g.come(10, "10.0.0.1", ""), nil)
			g.wants(g.come(40, "10.0.0.2", ""), nil)
			g.wants(g.come(1, "10.0.0.2", ""), ErrShared)
			g.leave(21)
			g.wants(g.come(40, "10.0.0.2", ""), ErrShared)
			if n := len(g.members); n != 50 {
				g.Errorf("%d streams, want 50", n)
			}
			g.leave(14)
			if g.crowd.crowd.Counting() {
				g.Error("who comes from where is counted while there is room")
			}
		},
		"a lower limit counts those who are there": func(g *gathering) {
			g.places.Most = 0
			g.wants(g.come(200, "10.0.0.1", ""), nil)
			g.places.Most = 300
			g.wants(g.come(1, "10.0.0.1", ""), ErrShared)
			g.wants(g.come(1, "10.0.0.2", ""), nil)
			g.places.Most = 100
			g.wants(g.come(1, "10.0.0.2", ""), ErrFull)
			g.places.Most = 0
			g.wants(g.come(1, "10.0.0.1", ""), nil)
			if g.crowd.crowd.Counting() {
				g.Error("who comes from where is counted without a limit")
			}
		},
	} {
		t.Run(name, func(t *testing.T) { f(gather(t, 100, 0.25)) })
	}
}

// No default refuses 50,000 isolated Envoys of one identity behind one address.
func TestFleetOfDefaults_LIM1(t *testing.T) {
	const envoys = 50_000
	l := config.Default().Limits
	g := gather(t, l.Streams, l.Share.Part())
	g.wants(g.come(envoys, "10.0.0.1", "spiffe://td/fleet"), nil)
	g.wants(g.come(envoys/2, "10.0.0.2", "spiffe://td/others"), nil) // and others find room beside them
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
