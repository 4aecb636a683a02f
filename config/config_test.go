package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func TestExamplesLoad(t *testing.T) {
	files, err := filepath.Glob("../examples/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, file := range files {
		if _, err := Load(file, nil, nil); err != nil {
			t.Error(err)
		}
	}
}

func TestYAMLReadsBack(t *testing.T) {
	for _, file := range []string{"testdata/every_key.yaml", "../examples/production.yaml", "../examples/hardened.yaml", "../examples/minimal.yaml", "../examples/files.yaml", "../examples/sotw.yaml", "../examples/rules.yaml"} {
		want, err := Load(file, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		data, err := want.YAML()
		if err != nil {
			t.Fatal(err)
		}
		got, err := Parse("again.yaml", data)
		if err != nil {
			t.Fatalf("%s\n%v", data, err)
		}
		hideHeaders(want)
		if diff := cmp.Diff(want, got, sameValues(), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
}

// hideHeaders gives upstreams' metadata the values that are shown (OPS-6).
func hideHeaders(c *Config) {
	for _, u := range c.Upstreams {
		for name, shown := range u.Metadata.shown() {
			u.Metadata[name] = []string{shown}
		}
	}
}

func TestNodeProto(t *testing.T) {
	c := mustParse(t, minimal+`
node:
  id: relay-1
  cluster: edge
  locality: {region: r, zone: z, sub_zone: s}
  metadata: {CLUSTER: {weights: [1, 2.5], on: true, none: null}}
`)
	want := &corev3.Node{
		Id: "relay-1", Cluster: "edge", UserAgentName: "xdsrelay",
		Locality: &corev3.Locality{Region: "r", Zone: "z", SubZone: "s"},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{
			"CLUSTER": structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"weights": structpb.NewListValue(&structpb.ListValue{Values: []*structpb.Value{structpb.NewNumberValue(1), structpb.NewNumberValue(2.5)}}),
				"on":      structpb.NewBoolValue(true),
				"none":    structpb.NewNullValue(),
			}}),
		}},
	}
	if diff := cmp.Diff(want, c.NodeProto(), protocmp.Transform()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	want = &corev3.Node{Id: "xdsrelay", Cluster: "xdsrelay", UserAgentName: "xdsrelay"}
	if diff := cmp.Diff(want, Default().NodeProto(), protocmp.Transform()); diff != "" {
		t.Errorf("default (-want +got):\n%s", diff)
	}
}

// TestValidateByHand checks what no file can hold: the decoder would refuse it.
func TestValidateByHand(t *testing.T) {
	c := Default()
	c.Node.Metadata = Metadata{"odd": struct{}{}}
	c.Cache.Idle = -1
	c.Log.Level = "loud"
	c.Upstreams = []Upstream{
		{Name: "a", Default: true, Endpoints: [][]string{{"a:1"}}},
		{Name: "b", Authorities: []string{"b"}, Path: "/etc/xds", APIType: REST},
	}
	err := c.Validate()
	if err == nil {
		t.Fatal("no error")
	}
	for _, want := range []string{
		"node.metadata: expected values of a google.protobuf.Struct: ",
		"cache.idle: expected 1s to 8760h, got -1ns",
		`log.level: expected one of debug, info, warn, error, got "loud"`,
		"upstreams[0].api_type: expected one of ",
		"upstreams[1].api_type: expected either path or api_type: files have no servers",
		"upstreams[0].backoff.base: expected 10ms to 24h, got 0s",
	} {
		if !strings.Contains("\n"+err.Error(), "\n"+want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if c.NodeProto().GetMetadata() != nil {
		t.Error("metadata that is not valid was not left out")
	}
}

func TestAPITypes(t *testing.T) {
	for _, want := range []APIType{AggregatedDeltaGRPC, AggregatedGRPC, DeltaGRPC, GRPC, REST} {
		c := mustParse(t, minimal+"    api_type: "+string(want)+"\n")
		if got := c.Upstreams[0].APIType; got != want {
			t.Errorf("api_type %s, want %s", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range append(seeds, "testdata/every_key.yaml") {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Parse("fuzz.yaml", data)
		if err != nil {
			if c != nil || err.Error() == "" {
				t.Fatalf("%v beside %q", c, err)
			}
			return
		}
		// What is taken as valid can be used: it goes onto the wire, and the admin
		// port shows what would be read again.
		if _, err := proto.Marshal(c.NodeProto()); err != nil {
			t.Fatal(err)
		}
		text, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := Parse("again.yaml", text)
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		hideHeaders(c)
		if diff := cmp.Diff(c, again, sameValues(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("(-first +second):\n%s", diff)
		}
	})
}
