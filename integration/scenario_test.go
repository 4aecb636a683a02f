package integration

import (
	"maps"
	"slices"
	"testing"

	"google.golang.org/grpc/codes"
)

// cell is a client of one variant over a control plane of another: what the matrix
// is made of.
type cell struct {
	t    *testing.T
	down variant
	// ups is how the relays ask, from the one at the control plane to the one that
	// the client is at.
	ups    []upstreamVariant
	plane  *testPlane
	client xdsClient

	// gone are resources that were removed without a word for it, by type: the
	// client goes on holding them.
	gone map[string]map[string]string
	// due is how many responses of each type the client has to get since it
	// connected, and how many it may.
	due map[string]span
	// total is the sum of what it has to get.
	total int
}

// span is how many responses are due, and how many more may come: where the
// protocol leaves the choice to the server.
type span struct{ due, more int }

// dues are spans by type. A type that is not among them gets no response.
type dues map[string]span

func once(types ...string) dues {
	d := make(dues)
	for _, typeURL := range types {
		d[typeURL] = span{due: 1}
	}
	return d
}

// everyType is what the scenario is about.
var everyType = []string{clusterType, listenerType, endpointType, routeType}

// tellsRemoval reports whether the client can be told that a resource is gone: by
// the absence from a full state, or if everybody from the control plane to it speaks
// incrementally. Otherwise there is no word for it (RES-3, RES-8).
func tellsRemoval(down variant, ups []upstreamVariant, typeURL string) bool {
	return fullState[typeURL] || !down.sotw && !slices.ContainsFunc(ups, upstreamVariant.isSotw)
}

// want is what the client should hold of a type now.
func (c *cell) want(typeURL string) map[string]string {
	wanted := c.client.common().wanted(typeURL)
	want := c.plane.payloads(typeURL, wanted)
	for n, payload := range c.gone[typeURL] {
		if _, ok := want[n]; !ok && wanted[n] {
			want[n] = payload
		}
	}
	return want
}

// step does something, waits until the client holds what it should, and counts
// the responses that it needed. One that comes late is found by the next step.
func (c *cell) step(what string, due dues, act func()) {
	c.t.Helper()
	for typeURL, s := range due {
		was := c.due[typeURL]
		c.due[typeURL] = span{was.due + s.due, was.more + s.more}
		c.total += s.due
	}
	act()
	h := c.client.common()
	if !h.happens(c.satisfied) {
		for _, typeURL := range everyType {
			c.t.Errorf("%s: of %s the client holds %q, want %q", what, typeURL, h.payloads(typeURL), c.want(typeURL))
			c.t.Errorf("%s: %d responses of %s, want %+v", what, h.count(typeURL), typeURL, c.due[typeURL])
		}
		c.t.FailNow()
	}
	for _, typeURL := range everyType {
		s := c.due[typeURL]
		if got := h.count(typeURL); got > s.due+s.more {
			c.t.Errorf("%s: %d responses of %s since the client connected, %d were due", what, got, typeURL, s.due)
			c.due[typeURL] = span{due: got}
		}
	}
}

func (c *cell) satisfied() bool {
	h := c.client.common()
	for _, typeURL := range everyType {
		if h.count(typeURL) < c.due[typeURL].due || !maps.Equal(h.payloads(typeURL), c.want(typeURL)) {
			return false
		}
	}
	return true
}

// fill is what there is in the beginning.
func (c *cell) fill() {
	for _, n := range []string{"c1", "c2"} {
		c.plane.set(clusterType, n, true)
	}
	for _, n := range []string{"c1", "c2", "c3", "c4"} {
		c.plane.set(endpointType, n, false)
	}
	c.plane.set(listenerType, "l1", true)
	c.plane.setRoute("r1", "c1")
	c.plane.setRoute("r2", "c2")
}

// play is the scenario.
func (c *cell) play() {
	c.t.Helper()
	c.step("the first state", once(everyType...), c.join)
	c.changes()
	c.removals()
	c.absence()
	c.subscriptions()
	c.reconnects()
	for _, typeURL := range everyType {
		c.step("a last change", once(typeURL), func() { c.change(typeURL) })
	}
	c.versions()
	for _, fault := range c.client.common().found() {
		c.t.Error(fault)
	}
}

// versions checks that the server's own versions came through where everybody on the
// way has them (ACK-4). The last change of every type was one that the client saw.
func (c *cell) versions() {
	translated := slices.ContainsFunc(c.ups, func(up upstreamVariant) bool { return up.sotw != c.down.sotw })
	if translated {
		return
	}
	for _, typeURL := range everyType {
		switch d := c.client.(type) {
		case *client:
			want := c.plane.holds(typeURL, d.wanted(typeURL))
			if got := d.state(typeURL); !maps.Equal(got, want) {
				c.t.Errorf("ACK-4: versions of %s %q, want %q", typeURL, got, want)
			}
		case *sotwClient:
			want := c.plane.Version(typeURL)
			if c.ups[0].rest { // the version of an answer is about what was asked for
				sent := c.plane.Responses(typeURL)
				want = sent[len(sent)-1].Version
			}
			if got := d.versionInfo(typeURL); got != want {
				c.t.Errorf("ACK-4: version_info of %s %q, want %q", typeURL, got, want)
			}
		}
	}
}

// join connects and asks for wildcards and names.
func (c *cell) join() {
	if err := c.client.connect(false); err != nil {
		c.t.Fatal(err)
	}
	c.client.subscribe(clusterType, []string{"*"}, nil)
	c.client.subscribe(listenerType, []string{"*"}, nil)
	c.client.subscribe(endpointType, []string{"c1", "c2"}, nil)
	c.client.subscribe(routeType, []string{"r1"}, nil)
}

// change changes something that the client holds.
func (c *cell) change(typeURL string) {
	switch typeURL {
	case clusterType, endpointType:
		c.plane.set(typeURL, "c1", true)
	case listenerType:
		c.plane.set(typeURL, "l1", true)
	case routeType:
		c.plane.setRoute("r1", "c2")
	}
}

func (c *cell) changes() {
	for _, typeURL := range everyType {
		c.step("an update", once(typeURL), func() { c.change(typeURL) })
	}
	c.step("a cluster more", once(clusterType), func() { c.plane.set(clusterType, "c3", true) })
	c.step("a listener more", once(listenerType), func() { c.plane.set(listenerType, "l2", true) })
	c.step("what nobody asked for", nil, func() {
		c.plane.set(endpointType, "c3", false)
		c.plane.setRoute("r2", "c1")
	})
}

func (c *cell) removals() {
	c.step("a cluster less", once(clusterType), func() { c.plane.unset(clusterType, "c3") })
	c.step("a listener less", once(listenerType), func() { c.plane.unset(listenerType, "l2") })
	due := once(endpointType)
	if !tellsRemoval(c.down, c.ups, endpointType) {
		c.gone[endpointType] = map[string]string{"c2": c.client.common().payloads(endpointType)["c2"]}
		due = c.perhaps(endpointType)
	}
	c.step("an endpoint less", due, func() { c.plane.unset(endpointType, "c2") })
	c.step("the endpoint again", once(endpointType), func() { c.plane.set(endpointType, "c2", false) })
	delete(c.gone, endpointType)
}

// perhaps is one response of a type to a client that polls, and none to others: a
// REST server keeps nothing of its clients, so what it is asked for may be another
// state because something less is in it.
func (c *cell) perhaps(typeURL string) dues {
	if c.down.rest {
		return dues{typeURL: span{more: 1}}
	}
	return nil
}

// absence asks for what does not exist. A SotW server has no word for that: the clients
// are told that it said nothing, and nothing else (RES-6, RES-7, ABS-1).
func (c *cell) absence() {
	due := once(endpointType)
	if c.down.rest {
		due = c.perhaps(endpointType)
	}
	c.step("an absent name", due, func() { c.client.subscribe(endpointType, []string{"late"}, nil) })
	h := c.client.common()
	switch silent := c.ups[0].isSilent(); {
	case c.down.sotw:
	case silent && (h.isAbsent(endpointType, "late") || h.errorOf(endpointType, "late") != codes.Unavailable):
		c.t.Errorf("RES-7: the client was told %v, removed: %t", h.errorOf(endpointType, "late"), h.isAbsent(endpointType, "late"))
	case !silent && !h.isAbsent(endpointType, "late"):
		c.t.Error("RES-6: the client was not told that the endpoint does not exist")
	}
	c.step("the absent name appears", once(endpointType), func() { c.plane.set(endpointType, "late", false) })
}

func (c *cell) subscriptions() {
	c.step("an endpoint more", once(endpointType), func() { c.client.subscribe(endpointType, []string{"c3"}, nil) })
	// On SotW ADS a request after a listener's response may mean that the listener
	// warms: then what it named before is due too (WARM-1), apart from what is new.
	more := once(routeType)
	if c.down.sotw && !c.down.perType {
		more = dues{routeType: span{due: 1, more: 1}}
	}
	c.step("a route more", more, func() { c.client.subscribe(routeType, []string{"r2"}, nil) })
	// The one is answered when the other was read.
	less := dues{endpointType: span{due: 1}}
	if c.down.rest {
		less = dues{endpointType: span{due: 1, more: 1}}
	}
	c.step("an endpoint for another", less, func() {
		c.client.subscribe(endpointType, nil, []string{"c3"})
		c.client.subscribe(endpointType, []string{"c4"}, nil)
	})
	c.step("the endpoint that was left", nil, func() { c.plane.set(endpointType, "c3", false) })
	c.step("the endpoint that came", once(endpointType), func() { c.plane.set(endpointType, "c4", false) })
}

// reconnects ends streams on either side. A client that comes back is sent what
// changed meanwhile; a SotW stream also what it names first (WARM-2), but not the
// wildcard's state that it has (ACK-5).
func (c *cell) reconnects() {
	c.client.disconnect()
	c.plane.set(clusterType, "c1", true)
	c.step("the client is back", c.backWith(clusterType), c.comeBack)

	c.step("streams break", once(listenerType), func() {
		c.plane.breakStreams()
		c.plane.set(listenerType, "l1", true)
	})
	c.step("the server comes again", once(clusterType), func() {
		c.plane.stop()
		c.plane.set(clusterType, "c2", true)
		c.plane.restart(c.t)
	})
}

func (c *cell) comeBack() {
	if err := c.client.connect(true); err != nil {
		c.t.Fatal(err)
	}
}

// backWith begins to count anew, for a client that comes back when one type has
// changed.
func (c *cell) backWith(typeURL string) dues {
	clear(c.due)
	d := once(typeURL)
	if c.down.sotw && !c.down.rest {
		maps.Copy(d, once(endpointType, routeType))
	}
	return d
}
