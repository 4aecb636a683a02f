package integration

import (
	"fmt"
	"testing"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// TestFailoverOfGlobs kills the control plane of a glob that has another glob for its
// alternative: the client holds that one's members under the first one's names, with
// what changes there, and the first one's when it is back. A member of both is never
// taken from it.
func TestFailoverOfGlobs_LOC5_GLOB1_GLOB7_NAME4(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		for _, typeURL := range failoverTypes {
			t.Run(v.name+" "+keyer.ShortName(typeURL), func(t *testing.T) {
				g := newGlobFailover(t, v, typeURL)
				g.set("cloud", "dir/x", "dir/y")
				g.set("on-prem", "e/x", "e/y", "e/z")
				g.client.Subscribe(typeURL, nameAt("cloud", typeURL, "dir/*")+"#alt="+nameAt("on-prem", typeURL, "e/*"))
				g.awaitMembers("the first", "cloud", "dir", "x", "y")

				killed := time.Now()
				g.planes["cloud"].stop()
				g.awaitMembers("the alternative", "on-prem", "e", "x", "y", "z")
				t.Logf("the alternative's members %v after the kill (alternative_after is %v)", time.Since(killed), alternativeAfter)
				g.set("on-prem", "e/y", "e/w")
				g.set("cloud", "dir/v") // nobody hears of it yet
				g.awaitMembers("a change at the alternative", "on-prem", "e", "w", "x", "y", "z")

				g.planes["cloud"].restart(t)
				g.awaitMembers("the first again", "cloud", "dir", "v", "x", "y")
				g.set("cloud", "dir/x")
				g.set("on-prem", "e/x")
				g.awaitMembers("a change at the first", "cloud", "dir", "v", "x", "y")
				g.kept("x", "y")
				g.end()
			})
		}
	}
}

// TestAlternativeInDirectory has a directory that lists a member with an alternative:
// the member is asked for ahead, at its own authority and without the directive, and
// the client that asks for it as it is listed is served by the alternative while that
// authority is away.
func TestAlternativeInDirectory_LIST2_LOC5_NAME8(t *testing.T) {
	for _, v := range []variant{deltaADS, sotwADS} {
		t.Run(v.name, func(t *testing.T) {
			g := newGlobFailover(t, v, listenerType)
			g.set("cloud", "x")
			g.set("on-prem", "y")
			list := nameAt("cloud", listenerCollectionType, "all")
			body := directory(entryAt(&xdscorev3.ResourceLocator{
				Authority: "cloud", ResourceType: "envoy.config.listener.v3.Listener", Id: "x",
				Directives: []*xdscorev3.ResourceLocator_Directive{{Directive: &xdscorev3.ResourceLocator_Directive_Alt{
					Alt: &xdscorev3.ResourceLocator{Authority: "on-prem", ResourceType: "envoy.config.listener.v3.Listener", Id: "y"},
				}}},
			}))
			g.planes["cloud"].put(listenerCollectionType, list, body)
			g.client.Subscribe(listenerCollectionType, list)
			g.client.awaitContent(t, "the directory", listenerCollectionType, list, string(body))
			own, other := nameAt("cloud", listenerType, "x"), nameAt("on-prem", listenerType, "y")
			waitFor(t, "LIST-2: the member asked for ahead", func() bool {
				streams := g.planes["cloud"].streamsNow()
				return len(streams) == 1 && streams[0].subscribed[listenerType][own] == 1
			})

			name := own + "#alt=" + other
			g.client.Subscribe(listenerType, name)
			g.client.awaitContent(t, "the member", listenerType, name, g.payload("cloud", own))
			g.planes["cloud"].stop()
			g.client.awaitContent(t, "its alternative", listenerType, name, g.payload("on-prem", other))
			g.set("cloud", "x")
			g.planes["cloud"].restart(t)
			g.client.awaitContent(t, "the member again", listenerType, name, g.payload("cloud", own))
			g.end()
		})
	}
}

// globFailover is a client of two control planes that know globs.
type globFailover struct {
	t       *testing.T
	typeURL string
	planes  map[string]*testPlane // by authority
	relay   *testRelay
	client  *noted
}

func newGlobFailover(t *testing.T, v variant, typeURL string) *globFailover {
	t.Helper()
	g := &globFailover{t: t, typeURL: typeURL, planes: map[string]*testPlane{"cloud": newPlane(t), "on-prem": newPlane(t)}}
	g.planes["cloud"].plain, g.planes["on-prem"].plain = true, true
	g.planes["on-prem"].life = 1
	g.relay = startRelay(t, twoAuthorities(alternativeAfter), g.planes["cloud"].addr, g.planes["on-prem"].addr)
	g.client = startNoted(t, v, g.relay, "client")
	return g
}

func (g *globFailover) set(authority string, ids ...string) {
	for _, id := range ids {
		g.planes[authority].set(g.typeURL, nameAt(authority, g.typeURL, id), false)
	}
}

func (g *globFailover) payload(authority, name string) string {
	return g.planes[authority].payloads(g.typeURL, map[string]bool{name: true})[name]
}

// awaitMembers waits until the client holds these members of a directory, under the
// names that they have in the cloud's. A removal that has no word in the client's
// variant need not come.
func (g *globFailover) awaitMembers(what, authority, dir string, members ...string) {
	g.t.Helper()
	for _, m := range members {
		want := g.payload(authority, nameAt(authority, g.typeURL, dir+"/"+m))
		g.client.awaitContent(g.t, what+": "+m, g.typeURL, nameAt("cloud", g.typeURL, "dir/"+m), want)
	}
	if g.tellsRemoval() {
		g.client.await(g.t, fmt.Sprintf("%s: the members %v and no others", what, members), func() bool {
			return g.client.Len(g.typeURL) == len(members)
		})
	}
}

func (g *globFailover) tellsRemoval() bool { return !g.client.variant.sotw || fullState[g.typeURL] }

// kept checks that these members were never taken away.
func (g *globFailover) kept(members ...string) {
	g.t.Helper()
	for _, m := range members {
		name := nameAt("cloud", g.typeURL, "dir/"+m)
		for _, c := range g.client.since(0) {
			if c.name == name && c.kind != xdsclient.Added && c.kind != xdsclient.Changed && c.kind != xdsclient.Unchanged {
				g.t.Errorf("LOC-5: the client was told of %s: %s", name, c.kind)
			}
		}
	}
}

func (g *globFailover) end() {
	g.t.Helper()
	for _, p := range g.planes {
		p.checkClient(g.t)
	}
	g.relay.consistent(g.t)
}
