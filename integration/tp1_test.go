package integration

import (
	"cmp"
	"slices"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/anypb"
)

// The xdstp proposal's relay example: two clients, two globs, one upstream stream.
const (
	tp1Type = "type.googleapis.com/envoy.config.listeners.v3.Listener"
	tp1Base = "xdstp://some-authority/envoy.config.listeners.v3.Listener/"
)

// TestTP1RelayExample plays the proposal's relay example over real sockets, and
// compares every message with it.
func TestTP1RelayExample_GLOB1_GLOB2_GLOB6_SUB10_LOC7_NAME2(t *testing.T) {
	p := newPlane(t)
	p.types[tp1Type] = map[string]entry{
		tp1Base + "a-listeners/foo": {version: "1", payload: payloadOf("foo", 1)},
		tp1Base + "a-listeners/bar": {version: "42", payload: payloadOf("bar", 42)},
		tp1Base + "b-listeners/baz": {version: "13", payload: payloadOf("baz", 13)},
	}
	relay := startRelay(t, nil, p.addr)
	a, b := newClient(t, relay.addr, "client-a"), newClient(t, relay.addr, "client-b")
	for c, glob := range map[*client]string{a: tp1Base + "a-listeners/*", b: tp1Base + "b-listeners/*"} {
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(tp1Type, []string{glob}, nil)
	}
	a.awaitHolding(t, tp1Type, tp1Base+"a-listeners/foo", tp1Base+"a-listeners/bar")
	b.awaitHolding(t, tp1Type, tp1Base+"b-listeners/baz")

	want := map[*client]*discovery.DeltaDiscoveryResponse{
		a: {TypeUrl: tp1Type, SystemVersionInfo: "v0", Resources: []*discovery.Resource{
			tp1Resource("a-listeners/bar", "42", payloadOf("bar", 42)),
			tp1Resource("a-listeners/foo", "1", payloadOf("foo", 1)),
		}},
		b: {TypeUrl: tp1Type, SystemVersionInfo: "v0", Resources: []*discovery.Resource{
			tp1Resource("b-listeners/baz", "13", payloadOf("baz", 13)),
		}},
	}
	for c, w := range want {
		got := c.responses()
		if len(got) != 1 {
			t.Fatalf("%s got %d responses, want 1", c.node, len(got))
		}
		if diff := gocmp.Diff(w, got[0], protocmp.Transform(), protocmp.IgnoreFields(w, "nonce"),
			protocmp.SortRepeated(func(x, y *discovery.Resource) bool { return cmp.Less(x.GetName(), y.GetName()) })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.node, diff)
		}
	}
	streams := p.streamsNow()
	if len(streams) != 1 {
		t.Fatalf("SUB-10: the control plane sees %d streams, want 1", len(streams))
	}
	wantSubs := map[string]int{tp1Base + "a-listeners/*": 1, tp1Base + "b-listeners/*": 1}
	if diff := gocmp.Diff(wantSubs, streams[0].subscribed[tp1Type], cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("SUB-10: subscriptions upstream (-want +got):\n%s", diff)
	}
	if streams[0].node != "xdsrelay" {
		t.Errorf("NAME-2: node %q upstream, want the relay's own", streams[0].node)
	}
	if slices.ContainsFunc(streams[0].requests, func(r *discovery.DeltaDiscoveryRequest) bool { return r.ErrorDetail != nil }) {
		t.Error("the relay rejected a response")
	}
}

func tp1Resource(name, version string, payload []byte) *discovery.Resource {
	return &discovery.Resource{Name: tp1Base + name, Version: version, Resource: &anypb.Any{TypeUrl: tp1Type, Value: payload}}
}
