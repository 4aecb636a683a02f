package filesource

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// FuzzParse: no file makes the parser panic, what it takes is sound, and what it
// says of one that it does not take quotes nothing of it (OPS-6).
func FuzzParse(f *testing.F) {
	const secret = `{"version_info": "1", "resources": [{"@type": "` + secretType + `", "name": "s", "generic_secret": {"secret": {"inline_string": "S3CRET!"}}}]}`
	f.Add(0, secret)
	f.Add(0, secret[:120])
	f.Add(1, clusters("1", "a", "b"))
	f.Add(1, "a: &a {x: S3CRET!}\nb: {<<: *a, y: [1, .inf, ~, 2026-01-02]}\n")
	f.Add(1, "a: *S3CRET!\n? [S3CRET!]\n: !!binary S3CRET!\n")
	f.Add(2, string(encoded.Bytes(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{
		encoded.Any(&clusterv3.Cluster{Name: "a"}), encoded.Any(&discoveryv3.Resource{Name: "b", Resource: encoded.Any(&clusterv3.Cluster{Name: "c"})}),
	}})))
	f.Add(3, `resources { [`+secretType+`] { name: "s" generic_secret { secret { inline_string: "S3CRET!" } } } }`)
	f.Fuzz(func(t *testing.T, format int, data string) {
		if format < 0 || format >= len(formats) {
			return
		}
		c, bad := parse(format, []byte(data), 1<<16)
		if bad != nil {
			// What is said of a resource names it, and types, on purpose.
			if c != nil || bad.Message == "" || strings.Contains(bad.Message, marker) && !strings.HasPrefix(bad.Message, "resources[") {
				t.Fatalf("%+v, %q", c, bad)
			}
			return
		}
		names := make(map[string]bool)
		for _, r := range c.resources {
			if r.Name == "" || names[r.Name] || r.TypeURL() != c.typeURL || !r.HasPayload() {
				t.Fatalf("%q of %s in %s", r.Name, r.TypeURL(), c.typeURL)
			}
			names[r.Name] = true
		}
		if c.typeURL == "" || c.version == "" {
			t.Fatalf("type %q, version %q", c.typeURL, c.version)
		}
	})
}
