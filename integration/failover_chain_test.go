package integration

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

// chain are three control planes, of the authorities a, b and c, and a relay that
// knows where each is.
type chain struct {
	planes map[string]*testPlane
	relay  *testRelay
}

func newChain(t *testing.T) *chain {
	t.Helper()
	c := &chain{planes: make(map[string]*testPlane)}
	var addrs []string
	authorities := []string{"a", "b", "c"}
	for i, authority := range authorities {
		p := newPlane(t)
		p.plain, p.life = true, i // so that no two have the same contents
		c.planes[authority], addrs = p, append(addrs, p.addr)
		c.change(authority)
	}
	c.relay = startRelay(t, func(cfg *config.Config) {
		for i, authority := range authorities {
			cfg.Upstreams[i].Default, cfg.Upstreams[i].Authorities = false, []string{authority}
		}
		cfg.Resolve.AlternativeAfter = config.Duration(alternativeAfter)
	}, addrs...)
	return c
}

// change gives what a control plane has its next content.
func (c *chain) change(authority string) {
	c.planes[authority].set(endpointType, nameAt(authority, endpointType, "x"), false)
}

// stop stops control planes.
func (c *chain) stop(authorities ...string) {
	for _, authority := range authorities {
		c.planes[authority].stop()
	}
}

// restart brings a control plane back with something to tell.
func (c *chain) restart(t *testing.T, authority string) {
	t.Helper()
	c.change(authority)
	c.planes[authority].restart(t)
}

// name is a's, or b's, or c's.
func (*chain) name() string {
	encode := strings.NewReplacer("%", "%25", "#", "%23", ",", "%2C")
	b := nameAt("b", endpointType, "x") + "#alt=" + encode.Replace(nameAt("c", endpointType, "x"))
	return nameAt("a", endpointType, "x") + "#alt=" + encode.Replace(b)
}

// servedBy waits until a client has under the name what an authority has.
func (c *chain) servedBy(t *testing.T, client *noted, authority string) {
	t.Helper()
	own := nameAt(authority, endpointType, "x")
	want := c.planes[authority].payloads(endpointType, map[string]bool{own: true})[own]
	client.awaitContent(t, "the content of "+authority, endpointType, c.name(), want)
}

// TestFailoverChain has a name with an alternative that has one of its own: whoever is
// the first of the three that can be reached serves it, for a client that has it
// already and for one that comes new.
func TestFailoverChain_LOC5_NAME6_OPS1(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			c := newChain(t)
			first := startNoted(t, v, c.relay, "first")
			first.Subscribe(endpointType, c.name())
			c.servedBy(t, first, "a")
			steps := []struct {
				change func()
				serves string
			}{
				{func() { c.stop("a") }, "b"},
				{func() { c.stop("b") }, "c"},
				{func() { c.restart(t, "a") }, "a"},
				{func() { c.stop("a") }, "c"},
				{func() { c.restart(t, "b") }, "b"},
				{func() { c.restart(t, "a") }, "a"},
			}
			for _, step := range steps {
				step.change()
				c.servedBy(t, first, step.serves)
				late := startNoted(t, v, c.relay, "late")
				late.Subscribe(endpointType, c.name())
				c.servedBy(t, late, step.serves)
			}
			c.relay.consistent(t)
		})
	}
}

// TestFailoverCold begins with a relay that has never reached the first authority, nor
// the second: the third serves, until the first is there.
func TestFailoverCold_LOC5_OPS1(t *testing.T) {
	c := newChain(t)
	c.stop("a", "b")
	client := startNoted(t, deltaADS, c.relay, "client")
	client.Subscribe(endpointType, c.name())
	c.servedBy(t, client, "c")
	c.restart(t, "a")
	c.servedBy(t, client, "a")
	c.relay.consistent(t)
}
