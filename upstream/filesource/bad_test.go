package filesource

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	endpointv3 "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// marker stands in the files of these tests for what must not be told.
const marker = "S3CRET!"

// TestACK6_badFiles: what is wrong with a file is told with its place, and
// nothing of its contents but types and names (OPS-6).
func TestACK6_badFiles(t *testing.T) {
	cluster, endpoints := encoded.Any(&clusterv3.Cluster{Name: "a"}), encoded.Any(&endpointv3.ClusterLoadAssignment{ClusterName: "a"})
	binary := func(resources ...*anypb.Any) string {
		return string(encoded.Bytes(&discoveryv3.DiscoveryResponse{TypeUrl: clusterType, Resources: resources}))
	}
	whole := binary(cluster)
	for _, tt := range []struct{ name, file, data, want string }{
		{"empty JSON", "x.json", "", "x.json:1:1: unexpected token"},
		{"empty YAML", "x.yaml", "# nothing\n", "x.yaml: is empty"},
		{"empty text", "x.txtpb", "", "x.txtpb: holds neither a type_url nor a resource"},
		{"empty binary", "x.pb", "", "x.pb: holds neither a type_url nor a resource"},
		{"a response of nothing", "x.json", `{"version_info": "1"}`, "x.json: holds neither a type_url nor a resource"},
		{"half a JSON", "x.json", "{\n \"resources\": [{\"@type\": \"" + clusterType + "\", \"name\": \"S3CR", "x.json: ends too early: it is not complete"},
		{"half a JSON at a comma", "x.json", `{"version_info": "1",`, "x.json: ends too early: it is not complete"},
		{"half a YAML", "x.yaml", "resources:\n- {name: a", "x.yaml:2: did not find expected ',' or '}'"},
		{"half a text", "x.txtpb", "version_info: \"1\"\nresources {", "x.txtpb: ends too early: it is not complete"},
		{"half a binary", "x.pb", whole[:len(whole)-1], "x.pb: is no binary envoy.service.discovery.v3.DiscoveryResponse, or not all of one"},
		{"text as binary", "x.bin", clusters("1", marker), "x.bin: is no binary envoy.service.discovery.v3.DiscoveryResponse, or not all of one"},
		{"no JSON", "x.json", marker, "x.json:1:1: syntax error"},
		{"a list", "x.json", "[]", "x.json:1:1: unexpected token"},
		{"more behind the JSON", "x.json", `{} "S3CRET!"`, "x.json:1:4: unexpected token"},
		{"two YAML documents", "x.yaml", "a: b\n---\nc: " + marker, "x.yaml:2:1: a second document: a file holds one"},
		{"unknown field", "x.json", "{\n  \"S3CRET!\": 1}", "x.json:2:3: unknown field"},
		{"unknown field in YAML", "x.yaml", "version_info: x\nresources:\n  - \"@type\": " + clusterType + "\n    S3CRET!: 1\n", "x.yaml:4:5: unknown field"},
		{"unknown field in text", "x.txtpb", "\n SECRET: 1", "x.txtpb:2:2: unknown field"},
		{"wrong type of value", "x.yaml", "resources:\n- {\"@type\": " + clusterType + ", name: [S3CRET!]}", "x.yaml:2:72: invalid value for string field name"},
		{"a number for a string", "x.yaml", "resources:\n- {\"@type\": " + clusterType + ", name: 12}", "x.yaml:2:72: invalid value for string field name"},
		{"a bad enum", "x.json", `{"resources": [{"@type": "` + clusterType + `", "type": "S3CRET!"}]}`, "x.json:1:89: invalid value for enum field type"},
		{"a bad duration", "x.json", `{"resources": [{"@type": "` + clusterType + `", "connect_timeout": "S3CRET!"}]}`, "x.json:1:100: invalid google.protobuf.Duration"},
		{"a bad value in text", "x.txtpb", `version_info: S3CRET`, "x.txtpb:1:15: invalid value for string type"},
		{"a field twice", "x.yaml", "version_info: S3CRET!\nversion_info: b\n", "x.yaml:2:1: field given twice"},
		{"a field twice in text", "x.txtpb", `version_info: "S3CRET!" version_info: "b"`, "x.txtpb:1:25: field given twice"},
		{"oneof twice", "x.json", `{"resources": [{"@type": "` + clusterType + `", "type": "EDS", "cluster_type": {"name": "S3CRET!"}}]}`, "x.json:1:96: another field of envoy.config.cluster.v3.Cluster.cluster_discovery_type is set already"},
		{"a type nobody knows", "x.json", `{"resources": [{"@type": "type.googleapis.com/no.such.Type"}]}`, "x.json:1:26: unknown type type.googleapis.com/no.such.Type: this build can read it in binary form only"},
		{"a type nobody knows in YAML", "x.yaml", "resources:\n- \"@type\": type.googleapis.com/no.such.Type\n", "x.yaml:2:12: unknown type type.googleapis.com/no.such.Type: this build can read it in binary form only"},
		{"a type nobody knows in text", "x.txtpb", "resources { [type.googleapis.com/no.such.Type] { } }", "x.txtpb:1:13: unknown type type.googleapis.com/no.such.Type: this build can read it in binary form only"},
		{"what is no type", "x.json", `{"resources": [{"@type": "S3CRET!"}]}`, "x.json:1:26: unknown type or extension"},
		{"no type", "x.json", `{"resources": [{"name": "S3CRET!"}]}`, "x.json:1:16: missing @type"},
		{"an empty resource", "x.json", `{"resources": [{}]}`, "x.json: resources[0]: has no payload, or one without type"},
		{"a wrapper without payload", "x.json", `{"resources": [{"@type": "` + wire.ResourceTypeURL + `", "name": "a"}]}`, "x.json: resources[0]: has no payload, or one without type"},
		{"a broken wrapper", "x.pb", binary(&anypb.Any{TypeUrl: wire.ResourceTypeURL, Value: []byte(marker)}), "x.pb: resources[0]: value: unexpected EOF"},
		{"the empty name twice", "x.json", `{"resources": [{"@type": "` + clusterType + `"}, {"@type": "` + clusterType + `"}]}`, `x.json: resources[1]: the name "" is that of resources[0] already`},
		{
			"DYN-1 a resource for dynamic parameters", "x.json",
			`{"resources": [{"@type": "` + wire.ResourceTypeURL + `", "resource_name": {"name": "a", "dynamic_parameter_constraints": {"constraint": {"key": "env", "value": "prod"}}}, "resource": {"@type": "` + clusterType + `"}}]}`,
			"x.json: resources[0]: has dynamic_parameter_constraints, which the relay does not serve",
		},
		{
			"DYN-1 an error for dynamic parameters", "x.json",
			`{"type_url": "` + clusterType + `", "resource_errors": [{"resource_name": {"name": "a", "dynamic_parameter_constraints": {"constraint": {"key": "env", "value": "prod"}}}, "error_detail": {"code": 5}}]}`,
			"x.json: resource_errors[0]: has dynamic_parameter_constraints, which the relay does not serve",
		},
		{"no message", "x.pb", binary(&anypb.Any{TypeUrl: clusterType, Value: []byte(marker)}), "x.pb: resources[0]: value: unexpected EOF"},
		{"half a message", "x.pb", binary(&anypb.Any{TypeUrl: clusterType, Value: []byte{10}}), "x.pb: resources[0]: value: unexpected EOF"},
		{"a name that is no text", "x.pb", binary(&anypb.Any{TypeUrl: clusterType, Value: []byte{10, 1, 0xff}}), "x.pb: resources[0]: value.name: invalid UTF-8"},
		{"another type", "x.pb", binary(cluster, endpoints), `x.pb: resources[1]: expected the type "` + clusterType + `", got "` + endpointType + `"`},
		{"two types", "x.yaml", "resources: [{\"@type\": " + clusterType + ", name: a}, {\"@type\": " + endpointType + ", cluster_name: a}]",
			`x.yaml: resources[1]: expected the type "` + clusterType + `", got "` + endpointType + `"`},
		{"a name twice", "x.yaml", clusters("1", "a", "b", "a"), `x.yaml: resources[2]: the name "a" is that of resources[0] already`},
		{"a long name twice", "x.yaml", clusters("1", strings.Repeat("a", 300), strings.Repeat("a", 300)),
			`x.yaml: resources[1]: the name "` + strings.Repeat("a", 256) + `"… (300 bytes) is that of resources[0] already`},
		{"a name twice, once wrapped", "x.pb", binary(cluster, encoded.Any(&discoveryv3.Resource{Name: "a", Resource: cluster})), `x.pb: resources[1]: the name "a" is that of resources[0] already`},
		{"a YAML alias of nothing", "x.yaml", "a: 1\nb: *S3CRET", "x.yaml:2: an alias of nothing"},
		{"a YAML tag", "x.yaml", "version_info: !S3CRET x", "x.yaml:1:15: a tag that JSON has no type for"},
		{"a YAML tag that lies", "x.yaml", "version_info: !!int S3CRET!", "x.yaml:1:15: not what its tag says"},
		{"a YAML key", "x.yaml", "? [S3CRET!]\n: x", "x.yaml:1:3: expected a string as key"},
		{"a YAML merge", "x.yaml", "<<: S3CRET!", "x.yaml:1:5: << expects a mapping or a list of mappings"},
		{"YAML with a tab", "x.yaml", "a:\n\t- S3CRET!", "x.yaml:2: found character that cannot start any token"},
		{"a key of more than one line", "x.yaml", "resources:\n- inline_string: -----BEGIN\n  S3CRET!\n  x: y", "x.yaml:3: could not find expected ':'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := file{name: tt.file}
			f.take([]byte(tt.data), DefaultMaxSize)
			bad := f.problem()
			if bad == nil {
				t.Fatalf("valid, want %s", tt.want)
			}
			if bad.Error() != tt.want {
				t.Errorf("%s\nwant %s", bad, tt.want)
			}
			if strings.Contains(bad.Error(), "S3CR") {
				t.Errorf("it tells what the file holds: %s", bad)
			}
		})
	}
}

// TestOPS6_parsersQuote holds the reasons to what the parsers say in fact: a
// message that they do not cover becomes a mere syntax error.
func TestOPS6_parsersQuote(t *testing.T) {
	inSecret := func(field string) string {
		return `{"resources": [{"@type": "` + secretType + `", "name": "s", "tls_certificate": {"private_key": {` + field + `}}}]}`
	}
	for _, tt := range []struct{ name, file, data, want string }{
		{"a number", "x.json", inSecret(`"inline_string": 73235`), "invalid value for string field inlineString"},
		{"a key", "x.json", inSecret(`"S3CRET!": ""`), "unknown field"},
		{"no base64", "x.json", inSecret(`"inline_bytes": "S3CRET!"`), "invalid value for bytes field inlineBytes"},
		{"an escape", "x.json", inSecret(`"inline_string": "\S3CRET!"`), "invalid character or escape in a string"},
		{"a line end", "x.json", inSecret("\"inline_string\": \"S3CRET!\n\""), "invalid character or escape in a string"},
		{"no quotes", "x.json", inSecret(`"inline_string": S3CRET!`), "syntax error"},
		{"a colon", "x.json", inSecret(`"inline_string" "S3CRET!"`), "unexpected character"},
		{"text without quotes", "x.txtpb", `resources { [` + secretType + `] { generic_secret { secret { inline_string: S3CRET } } } }`, "invalid value for string type"},
		{"text with an escape", "x.txtpb", `resources { [` + secretType + `] { generic_secret { secret { inline_string: "\S3CRET" } } } }`, "invalid character or escape in a string"},
		{"text with a wrong bracket", "x.txtpb", `resources { [` + secretType + `] < name: "S3CRET!" } }`, "closed by the wrong bracket"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, bad := parse(formatOf(tt.file), []byte(tt.data), DefaultMaxSize)
			if bad == nil || bad.Message != tt.want || bad.Line != 1 || bad.Column == 0 {
				t.Errorf("%+v, want %s", bad, tt.want)
			}
		})
	}
}
