package keyer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

func TestTypeURL(t *testing.T) {
	want := map[string]string{
		"lds": resource.ListenerType, "rds": resource.RouteType, "srds": resource.ScopedRouteType,
		"vhds": resource.VirtualHostType, "cds": resource.ClusterType, "eds": resource.EndpointType,
		"sds": resource.SecretType, "rtds": resource.RuntimeType, "ecds": resource.ExtensionConfigType,
		"fcds": "type.googleapis.com/envoy.config.listener.v3.FilterChain",
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

// Each form of a type that this build knows is the same type (VAR-9, LIST-1).
func TestKnownType_ACC2(t *testing.T) {
	for _, short := range keyer.ShortNames() {
		url, _ := keyer.TypeURL(short)
		message := strings.TrimPrefix(url, "type.googleapis.com/")
		forms := []string{url, message, "/" + message, "x.org/y/" + message, url + "Collection"}
		if old := keyer.V2TypeURL(url); old != "" {
			forms = append(forms, old, old+"Collection", "x/"+strings.TrimPrefix(old, "type.googleapis.com/"))
		} else if short != "ecds" && short != "fcds" {
			t.Errorf("%s has no form of v2", short)
		}
		for _, form := range forms {
			if got, known := keyer.KnownType(form); got != url || !known {
				t.Errorf("ACC-2: %s: %q, want %q", form, got, url)
			}
		}
		for _, other := range []string{url + "s", url + "CollectionCollection", strings.ToLower(url), url + "/", ""} {
			if got, known := keyer.KnownType(other); known {
				t.Errorf("ACC-2: %q is %q", other, got)
			}
		}
	}
	if got := keyer.V2TypeURL("type.googleapis.com/example.T"); got != "" {
		t.Errorf("a type that nobody knows has a form of v2: %q", got)
	}
}
