package integration

import (
	"fmt"
	"slices"
	"sync"
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

// isSilent reports whether the server has no word for a name that does not exist. Files say
// at once what there is not.
func (v upstreamVariant) isSilent() bool { return v.sotw && !v.files }

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

// startRelayOver runs a relay that asks a plane in one variant.
func startRelayOver(t testing.TB, up upstreamVariant, p *testPlane, change func(*config.Config)) *testRelay {
	t.Helper()
	addr := p.addr
	if up.rest {
		addr = p.RESTAddr()
	}
	return startRelay(t, func(c *config.Config) {
		u := &c.Upstreams[0]
		if up.files {
			u.Endpoints, u.Path, u.APIType = nil, p.startFiles(t, ".json", byRename), ""
		} else {
			u.APIType = config.APIType(up.apiType)
		}
		if change != nil {
			change(c)
		}
	}, addr)
}

func (v upstreamVariant) isSotw() bool { return v.sotw }

// address is where clients of a variant find the relay.
func (r *testRelay) address(v variant) string {
	if v.rest {
		return r.rest
	}
	return r.addr
}

// cellAbsentAfter is long enough for a plane to answer on a machine where many cells are
// played at once: a name that is told as unavailable first costs one response more than
// are due.
const cellAbsentAfter = 5 * absentAfter

// newCell puts a client and a plane on both sides of as many relays as there are ways
// to ask given, the first of which is at the plane.
func newCell(t *testing.T, down variant, ups ...upstreamVariant) (*cell, []*testRelay) {
	t.Helper()
	p := newPlane(t)
	p.plain = down.rest || slices.ContainsFunc(ups, func(up upstreamVariant) bool { return up.rest || up.files })
	c := &cell{
		t: t, down: down, ups: ups, plane: p,
		gone: make(map[string]map[string]string), due: make(map[string]span),
	}
	c.fill() // files are read without being asked for, so not while they are filled
	var chain []*testRelay
	for i, up := range ups {
		if i == 0 {
			chain = append(chain, startRelayOver(t, up, p, func(c *config.Config) {
				c.Upstreams[0].AbsentAfter = config.Duration(cellAbsentAfter)
			}))
		} else {
			chain = append(chain, startRelay(t, func(c *config.Config) {
				c.Upstreams[0].AbsentAfter = config.Duration(10 * cellAbsentAfter) // the relay before it says so first
				c.Upstreams[0].APIType = config.APIType(up.apiType)
			}, chain[i-1].address(variant{rest: up.rest})))
		}
	}
	c.client = newVariantClient(t, down, chain[len(chain)-1].address(down), "client")
	if r, ok := c.client.(*restClient); ok {
		r.keepsVersion = true
	}
	return c, chain
}

// TestMatrix plays the scenario with clients of every variant over control planes
// of every variant, through the relay. What the client holds is compared after
// every step, and it gets no response that the protocol does not ask for.
func TestMatrix_VAR7_STR7_STR8_SUB10(t *testing.T) {
	t.Parallel() // most of it is waiting
	var mu sync.Mutex
	results := make(map[string]string)
	t.Cleanup(func() { // when all cells have ended
		if !t.Failed() {
			holdMatrixDoc(t, results)
		}
	})
	for _, up := range upstreamVariants {
		for _, down := range variants {
			t.Run(up.apiType+"/"+down.name, func(t *testing.T) {
				t.Parallel()
				c := playThrough(t, down, up)
				mu.Lock()
				defer mu.Unlock()
				results[up.apiType+"/"+down.name] = fmt.Sprintf("yes (%d)", c.total)
			})
		}
	}
}

// TestTiers plays it through a relay behind a relay, which may speak another variant
// to each other than they do to the client and to the control plane: that still sees
// one stream.
func TestTiers_VAR7_ACK4_SUB10(t *testing.T) {
	t.Parallel() // most of it is waiting
	for _, down := range []variant{deltaADS, sotwADS} {
		for _, up := range []upstreamVariant{upDeltaADS, upSotwADS} {
			for _, between := range []upstreamVariant{upDeltaADS, upSotwADS, upDelta, upSotw} {
				t.Run(down.name+"/"+between.apiType+"/"+up.apiType, func(t *testing.T) {
					t.Parallel()
					playThrough(t, down, up, between)
				})
			}
		}
	}
}

// playThrough plays the scenario and looks at both sides of the relays.
func playThrough(t *testing.T, down variant, ups ...upstreamVariant) *cell {
	t.Helper()
	c, chain := newCell(t, down, ups...)
	c.play()
	for _, r := range chain {
		r.consistent(t)
	}
	c.plane.checkClient(t)
	want := 1
	switch {
	case ups[0].perType:
		want = len(everyType)
	case ups[0].rest, ups[0].files:
		want = 0
	}
	waitFor(t, fmt.Sprintf("SUB-10: the control plane sees %d streams", want), func() bool {
		return len(c.plane.streamsNow()) == want // of a stream that broke, it learns a moment later
	})
	return c
}
