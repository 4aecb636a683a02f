package filesource

import (
	"strings"
	"testing"
	"time"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

func mustParse(t *testing.T, name string, data []byte) *contents {
	t.Helper()
	c, bad := parse(formatOf(name), data, DefaultMaxSize)
	if bad != nil {
		t.Fatalf("%s: %v\n%s", name, bad, data)
	}
	return c
}

// TestVAR6_formats reads one response, with a wrapped resource in it, in every form.
func TestVAR6_formats(t *testing.T) {
	a := &clusterv3.Cluster{Name: "a", ConnectTimeout: durationpb.New(1500 * time.Millisecond)}
	response := &discoveryv3.DiscoveryResponse{
		VersionInfo: "v7",
		TypeUrl:     clusterType,
		Resources: []*anypb.Any{encoded.Any(a), encoded.Any(&discoveryv3.Resource{
			Name: "b", Version: "b7", Ttl: durationpb.New(time.Minute), Resource: encoded.Any(&clusterv3.Cluster{Name: "not this"}),
		})},
	}
	jsonText, err := protojson.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	text, err := prototext.Marshal(response)
	if err != nil {
		t.Fatal(err)
	}
	const yamlText = `
version_info: v7
type_url: &cluster type.googleapis.com/envoy.config.cluster.v3.Cluster
resources:
  - "@type": *cluster
    name: a
    connect_timeout: 1.500s
  - "@type": type.googleapis.com/envoy.service.discovery.v3.Resource
    name: b
    version: b7
    ttl: 60s
    resource:
      "@type": *cluster
      name: not this
`
	for name, data := range map[string][]byte{
		"x.json": jsonText, "x.JSON": jsonText, "x.yaml": []byte(yamlText), "x.yml": jsonText, "json.yaml": jsonText,
		"x.pb": encoded.Bytes(response), "x.bin": encoded.Bytes(response),
		"x.textproto": text, "x.txtpb": text, "x.pbtxt": text, "x.pb_text": text,
	} {
		t.Run(name, func(t *testing.T) {
			c := mustParse(t, name, data)
			if c.typeURL != clusterType || c.version != "v7" || len(c.resources) != 2 {
				t.Fatalf("type %s, version %s, %d resources", c.typeURL, c.version, len(c.resources))
			}
			bare, wrapped := c.resources[0], c.resources[1]
			if bare.Name != "a" || bare.Version != "" || bare.HasTTL || bare.TypeURL() != clusterType || len(bare.Digest()) != 32 {
				t.Errorf("bare: %q, version %q, ttl %t, %s", bare.Name, bare.Version, bare.HasTTL, bare.TypeURL())
			}
			if string(bare.Any()) != string(encoded.Bytes(response.GetResources()[0])) {
				t.Error("the payload is another")
			}
			if wrapped.Name != "b" || wrapped.Version != "b7" || wrapped.TTL() != time.Minute || wrapped.TypeURL() != clusterType {
				t.Errorf("RES-13 wrapped: %q, version %q, ttl %s, %s", wrapped.Name, wrapped.Version, wrapped.TTL(), wrapped.TypeURL())
			}
		})
	}
}

// TestVAR8_NAME9_unknownTypeInBinary: a payload of a type that nobody here knows, and
// with fields in an odd order, passes as it is. No name is guessed from it.
func TestVAR8_NAME9_unknownTypeInBinary(t *testing.T) {
	payload := protowire.AppendTag(nil, 900, protowire.VarintType)
	payload = protowire.AppendVarint(payload, 3)
	payload = protowire.AppendTag(payload, 1, protowire.BytesType)
	payload = protowire.AppendString(payload, "strange")
	payload = protowire.AppendTag(payload, 2, protowire.BytesType)
	payload = protowire.AppendBytes(payload, []byte{0xff, 0, 1})
	strange := &anypb.Any{TypeUrl: "type.example.com/no.such.Type", Value: payload}
	c := mustParse(t, "x.pb", encoded.Bytes(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{strange}}))
	if c.typeURL != strange.GetTypeUrl() || c.resources[0].Name != "" {
		t.Fatalf("type %s, name %q", c.typeURL, c.resources[0].Name)
	}
	if got := new(anypb.Any); proto.Unmarshal(c.resources[0].Any(), got) != nil || string(got.GetValue()) != string(payload) {
		t.Errorf("payload %x, want %x", got.GetValue(), payload)
	}
}

func TestNames(t *testing.T) {
	named := &discoveryv3.Resource{ResourceName: &discoveryv3.ResourceName{Name: "by resource_name"}, Resource: encoded.Any(&clusterv3.Cluster{Name: "x"})}
	nameless := &discoveryv3.Resource{Version: "1", Resource: encoded.Any(&clusterv3.Cluster{Name: "of the payload"})}
	c := mustParse(t, "x.pb", encoded.Bytes(&discoveryv3.DiscoveryResponse{Resources: []*anypb.Any{encoded.Any(named), encoded.Any(nameless)}}))
	if c.resources[0].Name != "by resource_name" || c.resources[1].Name != "of the payload" || c.resources[1].Version != "1" {
		t.Errorf("%q, %q at %q", c.resources[0].Name, c.resources[1].Name, c.resources[1].Version)
	}
}

// TestACK4_versions: without a version_info the version is one of the content.
func TestACK4_versions(t *testing.T) {
	version := func(names ...string) string {
		return mustParse(t, "x.yaml", []byte(strings.Replace(clusters("", names...), `version_info: ""`, "", 1))).version
	}
	if a, again := version("a", "b"), version("a", "b"); a != again || len(a) != 32 {
		t.Errorf("%q and %q for the same", a, again)
	}
	if version("a", "b") == version("a", "c") || version("a") == version("a", "b") {
		t.Error("the same for different resources")
	}
}

func TestEmptyOfAType(t *testing.T) {
	c := mustParse(t, "x.json", []byte(`{"type_url": "`+endpointType+`", "version_info": "1"}`))
	if c.typeURL != endpointType || len(c.resources) != 0 || c.version != "1" {
		t.Errorf("%+v", c)
	}
}
