package integration

import (
	"fmt"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// upstreamVariant is how the relay asks a control plane.
type upstreamVariant struct {
	apiType string // as in the configuration; "files" is a path
	sotw    bool
	perType bool
	rest    bool
	files   bool
}

// The variants that relays speak upstream.
var (
	upDeltaADS = upstreamVariant{apiType: "AGGREGATED_DELTA_GRPC"}
	upSotwADS  = upstreamVariant{apiType: "AGGREGATED_GRPC", sotw: true}
	upDelta    = upstreamVariant{apiType: "DELTA_GRPC", perType: true}
	upSotw     = upstreamVariant{apiType: "GRPC", sotw: true, perType: true}
	upREST     = upstreamVariant{apiType: "REST", sotw: true, rest: true}
	upFiles    = upstreamVariant{apiType: "files", sotw: true, files: true}
)

var upstreamVariants = []upstreamVariant{upDeltaADS, upSotwADS, upDelta, upSotw, upREST, upFiles}

// available are the cells that the relay can do: its clients' variants by its
// upstream's. The others are "not yet" in docs/protocol.md.
var available = map[upstreamVariant][]variant{
	upDeltaADS: {deltaADS, delta, sotwADS, sotw, sotwADSv2, deltaADSv2, restPoll},
}

// startRelayOver runs a relay that asks a plane in one variant.
func startRelayOver(t testing.TB, up upstreamVariant, p *plane, change func(*config.Config)) *testRelay {
	t.Helper()
	addr := p.addr
	if up.rest {
		addr = p.startREST(t)
	}
	return startRelay(t, func(c *config.Config) {
		u := &c.Upstreams[0]
		if up.files {
			// The upstream's path takes the place of its endpoints here.
			t.Fatalf("no configuration for files in %s yet", p.startFiles(t, ".json", byRename))
		}
		u.APIType = config.APIType(up.apiType)
		if change != nil {
			change(c)
		}
	}, addr)
}

// address is where clients of a variant find the relay.
func (r *testRelay) address(v variant) string {
	if v.rest {
		return r.rest
	}
	return r.addr
}

// newCell puts a client and a plane on both sides of as many relays.
func newCell(t *testing.T, down variant, up upstreamVariant, relays int) (*cell, []*testRelay) {
	t.Helper()
	p := newPlane(t)
	p.plain = down.rest || up.rest || up.files
	p.longPoll = patience
	c := &cell{
		t: t, down: down, up: up, plane: p, direct: relays == 0,
		gone: make(map[string]map[string]string), due: make(map[string]span),
	}
	var chain []*testRelay
	addr := p.addr
	for i := range relays {
		if i == 0 {
			chain = append(chain, startRelayOver(t, up, p, nil))
		} else {
			chain = append(chain, startRelay(t, func(c *config.Config) {
				c.Upstreams[0].APIType = config.APIType(up.apiType)
			}, addr))
		}
		addr = chain[i].address(down)
	}
	if relays == 0 && down.rest {
		addr = p.startREST(t)
	}
	c.client = newVariantClient(t, down, addr, "client")
	if r, ok := c.client.(*restClient); ok {
		r.keepsVersion = relays > 0
	}
	return c, chain
}

// direct is the variant as a server's.
func (v variant) direct() upstreamVariant {
	return upstreamVariant{sotw: v.sotw, perType: v.perType, rest: v.rest}
}

// TestDirect plays the scenario with clients of every variant on the plane itself:
// what the harness takes for the protocol's minimum is what two ends need that
// were made for each other.
func TestDirect(t *testing.T) {
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) {
			c, _ := newCell(t, v, v.direct(), 0)
			c.play()
			c.plane.checkClient(t)
		})
	}
}

// TestMatrix plays the scenario with clients of every variant over control planes
// of every variant, through the relay. What the client holds is compared after
// every step, and it gets no response that the protocol does not ask for.
func TestMatrix_VAR7_STR7_STR8_SUB10(t *testing.T) {
	results := make(map[string]string)
	for _, up := range upstreamVariants {
		for _, down := range available[up] {
			t.Run(up.apiType+"/"+down.name, func(t *testing.T) {
				c := playThrough(t, down, up, 1)
				results[up.apiType+"/"+down.name] = fmt.Sprintf("yes (%d)", c.total)
			})
		}
	}
	if !t.Failed() {
		holdMatrixDoc(t, results)
	}
}

// TestTiers plays it through two relays, which speak the client's variant to each
// other: the control plane still sees one stream.
func TestTiers_VAR7_SUB10(t *testing.T) {
	for up, downs := range available {
		for _, down := range downs {
			if up.perType || up.rest || up.files || down.perType || down.v2 || up.sotw != down.sotw {
				continue
			}
			t.Run(down.name, func(t *testing.T) { playThrough(t, down, up, 2) })
		}
	}
}

// playThrough plays the scenario and looks at both sides of the relays.
func playThrough(t *testing.T, down variant, up upstreamVariant, relays int) *cell {
	t.Helper()
	c, chain := newCell(t, down, up, relays)
	c.play()
	for _, r := range chain {
		r.consistent(t)
	}
	c.plane.checkClient(t)
	want := 1
	switch {
	case up.perType:
		want = len(everyType)
	case up.rest, up.files:
		want = 0
	}
	if n := len(c.plane.streamsNow()); n != want {
		t.Errorf("SUB-10: the control plane sees %d streams, want %d", n, want)
	}
	return c
}
