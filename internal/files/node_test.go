package files

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
)

func node() *corev3.Node {
	return &corev3.Node{
		Id: "n", Cluster: "c", UserAgentName: "envoy", Locality: &corev3.Locality{Zone: "z"},
		Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"x": structpb.NewNumberValue(1)}},
	}
}

func TestParse(t *testing.T) {
	for _, text := range []string{
		"id: n\ncluster: c\nuser_agent_name: envoy\nlocality: {zone: z}\nmetadata: {x: 1}\n",
		`{"id": "n", "cluster": "c", "userAgentName": "envoy", "locality": {"zone": "z"}, "metadata": {"x": 1}}`,
		"id: &id n\ncluster: c\nuser_agent_name: envoy\n<<: {id: m, locality: {zone: z}}\nmetadata: {x: 1}\n",
	} {
		got, err := ParseNode([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(node(), got, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "is empty",
		"null":                        "is empty",
		"id: n\ncluster: [":           "2: did not find expected node content",
		"id: n\n---\nid: m":           "2:1: a second document: a file holds one",
		"name: n":                     `1:1: unknown field "name"`,
		"id: n\nlocality: {regin: x}": `2:12: unknown field "regin"`,
		"1: n":                        `1:1: unknown field "1"`,
		"? [a]\n: n":                  "1:3: expected a string as key",
		"id: 1":                       "1:5: expected a string for id, got 1: put it in quotes",
		"id: [a]":                     "1:5: expected a string for id",
		"- id: n":                     "1:1: expected a mapping, got a list",
		"client_features: {}":         "1:18: expected a list, got a mapping",
		"metadata: text":              `1:11: expected a mapping or a list, got "text"`,
		"id: n\nid: m":                `2:1: duplicate field "id"`,
		"user_agent_build_version: {version: {major_number: x}}":    `1:52: invalid value for uint32 field majorNumber: "x"`,
		"user_agent_version: a\nuser_agent_build_version: {}":       "2:1: user_agent_build_version: another field of envoy.config.core.v3.Node.user_agent_version_type is set already",
		"listening_addresses: [{socket_address: {protocol: NO}}]\n": `1:51: invalid value for enum field protocol: "NO"`,
	} {
		node, err := ParseNode([]byte(text))
		if _, ok := errors.AsType[*PlaceError](err); !ok || node != nil || err.Error() != want {
			t.Errorf("%q: %v, %v, want %s", text, node, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "node.yaml")
	if node, err := ReadNode(file); !errors.Is(err, fs.ErrNotExist) || node != nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is not there: %v, %v", node, err)
	}
	for text, want := range map[string]string{
		"id: n\nnode: m\n": file + `:2:1: unknown field "node"`,
		"":                 file + ": is empty",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if node, err := ReadNode(file); err == nil || err.Error() != want || node != nil {
			t.Errorf("%q: %v, %v, want %s", text, node, err, want)
		}
	}
	if err := os.WriteFile(file, []byte(`{"id": "n"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if node, err := ReadNode(file); err != nil || node.GetId() != "n" {
		t.Errorf("%v, %v", node, err)
	}
}

// TestFromYAML: places are those in the whole file.
func TestFromYAML(t *testing.T) {
	part := func(text string) *yaml.Node {
		var document yaml.Node
		if err := yaml.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		return document.Content[0].Content[1]
	}
	if node, err := NodeFromYAML(part("node: {id: n}")); err != nil || node.GetId() != "n" {
		t.Errorf("%v, %v", node, err)
	}
	if node, err := NodeFromYAML(part("node:\n  id: n\n  name: m\n")); err == nil || err.Error() != `3:3: unknown field "name"` || node != nil {
		t.Errorf("%v, %v", node, err)
	}
}
