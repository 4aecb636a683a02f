package downstream

import (
	"strings"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// directoryOf is the name of a list collection with its parameters in an order that is
// not the canonical one.
func directoryOf(typ string) string { return "xdstp://a/" + typ + "Collection/d?z=1&a=2" }

// canonicalDirectoryOf is what the server calls it.
func canonicalDirectoryOf(typ string) string { return "xdstp://a/" + typ + "Collection/d?a=2&z=1" }

// Every streaming method serves the list collections of its type, under the type of
// the collection and under that of its members, and each client has them under the
// name that it asked with.
func TestLIST1_VAR1_VAR2_VAR3_VAR4_VAR9_NAME4_NAME5(t *testing.T) {
	for i := range services {
		v := &services[i]
		types := typesOf(v)
		if len(types) == 0 {
			types = []string{"envoy.config.listener.v3.Listener", "example.Unheard"}
		}
		for _, form := range []form{deltaForm, stateForm} {
			method := [2]string{v.Delta, v.State}[form]
			if method == "" {
				continue
			}
			for _, typ := range types {
				for _, asked := range []string{typ, typ + "Collection"} {
					t.Run(v.Name+"/"+method+" "+asked, func(t *testing.T) {
						bubble(t, func(h *harness) {
							givesDirectory(h, form, "/"+v.Name+"/"+method, typ, typePrefix+asked)
						})
					})
				}
			}
		}
	}
}

// givesDirectory asks for the list collection of a type under a type URL.
func givesDirectory(h *harness, f form, method, typ, asked string) {
	h.Helper()
	directory := &discovery.Resource{
		Name: canonicalDirectoryOf(typ), Version: "7",
		Resource: &anypb.Any{TypeUrl: typePrefix + typ + "Collection", Value: []byte("\n\x00 opaque")},
	}
	h.a.put(asked, directory)
	var got *discovery.Resource
	if f == deltaForm {
		c := h.deltaOn(method)
		c.subscribe(asked, directoryOf(typ))
		if all := c.take(); len(all) == 1 && all[0].TypeUrl == asked && len(all[0].Resources) == 1 {
			got = all[0].Resources[0]
			c.ack(all[0])
		}
		h.a.unset(asked, canonicalDirectoryOf(typ))
		if all := c.take(); len(all) != 1 || strings.Join(all[0].RemovedResources, " ") != directoryOf(typ) {
			h.Errorf("NAME-4: removed as %v", all)
		}
	} else {
		c := h.stateOn(method, true)
		c.node.ClientFeatures = []string{wire.FeatureWrapping}
		c.asks(asked, directoryOf(typ))
		if all := c.take(); len(all) == 1 && all[0].TypeUrl == asked && len(all[0].Resources) == 1 {
			got = new(discovery.Resource)
			if err := proto.Unmarshal(all[0].Resources[0].Value, got); err != nil {
				h.Fatal(err)
			}
		}
	}
	want := proto.CloneOf(directory)
	want.Name = directoryOf(typ)
	if !proto.Equal(want, got) {
		h.Errorf("got %v, want %v", got, want)
	}
}

// A service still refuses the list collections of other types.
func TestLIST1_VAR10(t *testing.T) {
	bubble(t, func(h *harness) {
		c := h.stateOn(edsStream, true)
		c.asks(clusterType+"Collection", "a")
		c.endedWith(codes.InvalidArgument, "serves "+endpointType+" only, and list collections (…Collection) of it")
	})
}

// Clients that poll get list collections too, as JSON.
func TestLIST1_VAR5_NAME4(t *testing.T) {
	const typ = "envoy.config.listener.v3.Listener"
	collection := &listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{{
		ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: &xdscorev3.ResourceLocator{Authority: "a", ResourceType: typ, Id: "x"}},
	}}}
	for _, asked := range []string{listenerType, listenerType + "Collection"} {
		t.Run(asked, func(t *testing.T) {
			restBubble(t, func(h *harness) {
				packed, err := anypb.New(collection)
				if err != nil {
					h.Fatal(err)
				}
				h.a.put(asked, &discovery.Resource{Name: canonicalDirectoryOf(typ), Version: "7", Resource: packed})
				p := h.poller("/v3/discovery:listeners", directoryOf(typ))
				p.next.TypeUrl = asked
				p.next.Node.ClientFeatures = []string{wire.FeatureWrapping}
				r := p.poll().wants("200 " + directoryOf(typ) + "@7")
				if len(r.GetResources()) != 1 || r.Resources[0].TypeUrl != wire.ResourceTypeURL {
					h.Fatalf("got %v", r)
				}
				wrapped, got := new(discovery.Resource), new(listenerv3.ListenerCollection)
				if err := r.Resources[0].UnmarshalTo(wrapped); err != nil {
					h.Fatal(err)
				}
				if err := wrapped.Resource.UnmarshalTo(got); err != nil || wrapped.Name != directoryOf(typ) || !proto.Equal(got, collection) {
					h.Errorf("%v: got %v", err, wrapped)
				}
			})
		})
	}
}
