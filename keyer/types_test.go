package keyer_test

import (
	"fmt"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestTypeURL(t *testing.T) {
	want := map[string]string{
		"lds": resource.ListenerType, "rds": resource.RouteType, "srds": resource.ScopedRouteType,
		"vhds": resource.VirtualHostType, "cds": resource.ClusterType, "eds": resource.EndpointType,
		"sds": resource.SecretType, "rtds": resource.RuntimeType, "ecds": resource.ExtensionConfigType,
	}
	names := keyer.ShortNames()
	if len(names) != len(want) {
		t.Errorf("%d short names, want %d", len(names), len(want))
	}
	for _, short := range names {
		url, ok := keyer.TypeURL(short)
		if !ok || url != want[short] {
			t.Errorf("TypeURL(%q) = %q, %t, want %q", short, url, ok, want[short])
		}
		if got := keyer.ShortName(url); got != short {
			t.Errorf("ShortName(%q) = %q, want %q", url, got, short)
		}
	}
	if url, ok := keyer.TypeURL("CDS"); !ok || url != resource.ClusterType {
		t.Errorf("TypeURL is not blind to case: %q", url)
	}
	for _, unknown := range []string{"", "xds", resource.ClusterType} {
		if url, ok := keyer.TypeURL(unknown); ok {
			t.Errorf("TypeURL(%q) = %q", unknown, url)
		}
	}
	if n := testing.AllocsPerRun(100, func() { keyer.ShortName(resource.ExtensionConfigType) }); n != 0 {
		t.Errorf("ShortName allocates %v times", n)
	}
}

func ExampleShortName() {
	fmt.Println(keyer.ShortName("type.googleapis.com/envoy.config.cluster.v3.Cluster"))
	fmt.Println(keyer.ShortName("type.googleapis.com/example.Thing"))
	// Output:
	// cds
	// type.googleapis.com/example.Thing
}
