package integration

import (
	"fmt"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
	"maps"
	"slices"
	"testing"
)

// The variants of clients by the form that they speak over gRPC.
var (
	sotwClients  = []variant{sotwADS, sotw, sotwADSv2}
	deltaClients = []variant{deltaADS, delta, deltaADSv2}
)

// versionPlane has a list that is asked for as a whole, and endpoints and a route that
// are asked for by name. Its versions are none that a relay would count up to.
func versionPlane(t *testing.T) *testPlane {
	t.Helper()
	p := newPlane(t)
	p.plain, p.version = true, 4000
	p.Behave(func(b *plane.Behaviour) { b.VersionSuffix = " of the server" })
	p.set(clusterType, "c1", true)
	p.set(clusterType, "c2", true)
	p.set(endpointType, "c1", false)
	p.set(endpointType, "c2", false)
	p.setRoute("r1", "c1")
	return p
}

// versionTypes are the types that it has.
var versionTypes = []string{clusterType, endpointType, routeType}

// joinVersions connects a client that asks for all of a versionPlane, endpoints in
// the order given.
func joinVersions(t *testing.T, r *testRelay, v variant, what string, endpoints ...string) xdsClient {
	t.Helper()
	c := newVariantClient(t, v, r.address(v), fmt.Sprint(v.name, " that ", what))
	if err := c.connect(false); err != nil {
		t.Fatal(err)
	}
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, endpoints, nil)
	c.subscribe(routeType, []string{"r1"}, nil)
	return c
}

// awaitPayloads waits until a client holds what the plane has.
func awaitPayloads(t *testing.T, p *testPlane, c xdsClient) {
	t.Helper()
	h := c.common()
	for _, typeURL := range versionTypes {
		want := p.payloads(typeURL, h.wanted(typeURL))
		if !h.happens(func() bool { return maps.Equal(h.payloads(typeURL), want) }) {
			t.Fatalf("the client %s holds %q of %s, want %q", h.node, h.payloads(typeURL), typeURL, want)
		}
	}
	for _, fault := range h.found() {
		t.Errorf("the client %s: %s", h.node, fault)
	}
}

// TestVersionInfo: a SotW client is shown the version_info of a SotW server, to the
// letter, whether it was there or comes later.
func TestVersionInfo_ACK4_VAR1_VAR3_VAR9(t *testing.T) {
	for _, up := range []upstreamVariant{upSotwADS, upSotw} {
		for _, down := range sotwClients {
			t.Run(up.apiType+"/"+down.name, func(t *testing.T) {
				p := versionPlane(t)
				relay := startRelayOver(t, up, p, nil)
				literal := func(c *sotwClient) {
					t.Helper()
					awaitPayloads(t, p, c)
					for _, typeURL := range versionTypes {
						want := p.Version(typeURL)
						if !c.happens(func() bool { return c.versionInfo(typeURL) == want }) {
							t.Errorf("version_info of %s is %q, the server's is %q", typeURL, c.versionInfo(typeURL), want)
						}
					}
				}
				stays := joinVersions(t, relay, down, "stays", "c1", "c2").(*sotwClient)
				literal(stays)
				p.set(clusterType, "c1", true)
				p.set(endpointType, "c2", false)
				p.setRoute("r1", "c2")
				literal(stays)
				literal(joinVersions(t, relay, down, "comes", "c2", "c1").(*sotwClient))
				p.unset(clusterType, "c2")
				literal(stays)
				p.checkClient(t)
			})
		}
	}
}

// TestResourceVersions: an incremental client is shown system_version_info and the
// resources' versions of an incremental server, to the letter.
func TestResourceVersions_ACK4_VAR2_VAR4_VAR9(t *testing.T) {
	for _, up := range []upstreamVariant{upDeltaADS, upDelta} {
		for _, down := range deltaClients {
			t.Run(up.apiType+"/"+down.name, func(t *testing.T) {
				p := versionPlane(t)
				relay := startRelayOver(t, up, p, nil)
				literal := func(c *client) {
					t.Helper()
					awaitPayloads(t, p, c)
					for _, typeURL := range versionTypes {
						if want := p.holds(typeURL, c.wanted(typeURL)); !maps.Equal(c.state(typeURL), want) {
							t.Errorf("holds %q of %s, want %q", c.state(typeURL), typeURL, want)
						}
						if got := c.systemVersion(typeURL); got != p.Version(typeURL) {
							t.Errorf("system_version_info of %s is %q, the server's is %q", typeURL, got, p.Version(typeURL))
						}
					}
				}
				stays := joinVersions(t, relay, down, "stays", "c1", "c2").(*client)
				literal(stays)
				p.set(clusterType, "c1", true)
				p.set(endpointType, "c2", false)
				literal(stays)
				literal(joinVersions(t, relay, down, "comes", "c2", "c1").(*client))
				p.checkClient(t)
			})
		}
	}
}

// systemVersion is that of the last response of a type.
func (c *client) systemVersion(typeURL string) string {
	for _, r := range slices.Backward(c.responses()) {
		if r.GetTypeUrl() == typeURL {
			return r.GetSystemVersionInfo()
		}
	}
	return ""
}

// TestDigestVersions: an incremental server has no version for what SotW clients are
// sent. These are shown the same one for the same contents, however they spell their
// subscription, after a reconnect, and by another relay; and another one for others.
func TestDigestVersions_ACK4(t *testing.T) {
	for _, up := range []upstreamVariant{upDeltaADS, upDelta} {
		for _, down := range append(slices.Clone(sotwClients), restPoll) {
			t.Run(up.apiType+"/"+down.name, func(t *testing.T) {
				p := versionPlane(t)
				one, two := startRelayOver(t, up, p, nil), startRelayOver(t, up, p, nil)
				clients := []xdsClient{
					joinVersions(t, one, down, "is first", "c1", "c2"),
					joinVersions(t, one, down, "is second", "c2", "c1"),
					joinVersions(t, one, down, "comes back", "c1", "c2"),
					joinVersions(t, two, down, "is at the replica", "c1", "c2"),
				}
				before := sameVersions(t, p, clients)
				clients[2].disconnect()
				if err := clients[2].connect(false); err != nil {
					t.Fatal(err)
				}
				if again := sameVersions(t, p, clients); !maps.Equal(before, again) {
					t.Errorf("after a reconnect the versions are %q, before %q", again, before)
				}
				p.set(clusterType, "c1", true)
				p.set(endpointType, "c2", false)
				after := sameVersions(t, p, clients)
				for _, typeURL := range versionTypes {
					if changed := after[typeURL] != before[typeURL]; changed != (typeURL != routeType) {
						t.Errorf("of %s the version is %q, before %q", typeURL, after[typeURL], before[typeURL])
					}
				}
			})
		}
	}
}

// sameVersions waits until all clients hold what the plane has and show the same
// versions, and gives these by type.
func sameVersions(t *testing.T, p *testPlane, clients []xdsClient) map[string]string {
	t.Helper()
	versions := make(map[string]string)
	for _, c := range clients {
		awaitPayloads(t, p, c)
	}
	for _, typeURL := range versionTypes {
		want := shownVersion(clients[0], typeURL)
		if want == "" {
			t.Fatalf("no version of %s", typeURL)
		}
		for _, c := range clients[1:] {
			// Parts of a state that came one by one had versions of their own.
			if !c.common().happens(func() bool { return shownVersion(c, typeURL) == shownVersion(clients[0], typeURL) }) {
				t.Fatalf("the client %s is shown %q of %s, another one %q", c.common().node, shownVersion(c, typeURL), typeURL, shownVersion(clients[0], typeURL))
			}
		}
		versions[typeURL] = shownVersion(clients[0], typeURL)
	}
	return versions
}

// shownVersion is the version_info that a SotW client took last.
func shownVersion(c xdsClient, typeURL string) string {
	h := c.common()
	h.mu.Lock()
	defer h.mu.Unlock()
	switch c := c.(type) {
	case *sotwClient:
		return c.accepted[typeURL]
	case *restClient:
		return c.accepted[typeURL]
	}
	return ""
}

// TestVersionReused: an incremental server gives other contents the version that it
// had. On a live stream that reaches everybody: who was there, who was away and presents
// that version, and who comes new. On a stream that the relay resumes it cannot: the
// relay presents the version, and the server says nothing of what has it (RES-12).
func TestVersionReused_ACK4(t *testing.T) {
	for _, up := range []upstreamVariant{upDeltaADS, upDelta} {
		t.Run(up.apiType, func(t *testing.T) {
			p := versionPlane(t)
			relay := startRelayOver(t, up, p, nil)
			var stay, leave []xdsClient
			for _, v := range variants {
				stay, leave = append(stay, joinVersions(t, relay, v, "stays", "c1", "c2")), append(leave, joinVersions(t, relay, v, "leaves", "c1", "c2"))
			}
			for _, c := range slices.Concat(stay, leave) {
				awaitPayloads(t, p, c)
			}
			for _, c := range leave {
				c.disconnect()
			}
			p.reuseVersion(clusterType, "c1")
			p.reuseVersion(endpointType, "c2")
			p.reuseVersion(routeType, "r1")
			for _, c := range stay {
				awaitPayloads(t, p, c)
			}
			for _, c := range leave {
				if err := c.connect(true); err != nil {
					t.Fatal(err)
				}
				awaitPayloads(t, p, c)
			}
			for _, v := range variants {
				awaitPayloads(t, p, joinVersions(t, relay, v, "comes", "c2", "c1"))
			}
			relay.consistent(t)
			p.checkClient(t)
		})
	}
}

// reuseVersion changes what a resource holds, and not its version.
func (p *testPlane) reuseVersion(typeURL, name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r := p.Covered(typeURL, name)[0]
	p.version++
	r.Payload = p.payloadLocked(typeURL, name, "c2")
	p.Apply(plane.Change{Set: []plane.Resource{r}})
}
