package directory_test

import (
	"fmt"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/relay/directory"
)

func ExampleRead() {
	payload, err := anypb.New(&listenerv3.ListenerCollection{Entries: []*xdscorev3.CollectionEntry{
		{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: &xdscorev3.ResourceLocator{
			Authority: "a", ResourceType: "envoy.config.listener.v3.Listener", Id: "bar",
		}}},
		{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: "baz", Version: "1", Resource: &anypb.Any{TypeUrl: "type.googleapis.com/envoy.config.listener.v3.Listener"},
		}}},
		{},
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	packed, err := proto.Marshal(payload)
	if err != nil {
		fmt.Println(err)
		return
	}
	d, err := directory.Read(packed)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range d.Entries {
		fmt.Printf("%d %q %q\n", e.Number, e.Locator, e.Name)
	}
	for _, fault := range d.Faults {
		fmt.Println(fault)
	}
	// Output:
	// 0 "xdstp://a/envoy.config.listener.v3.Listener/bar" ""
	// 1 "" "baz"
	// resources[2]: neither a locator nor an inline entry
}
