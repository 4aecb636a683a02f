package payload

import (
	"encoding/json"
	"strings"
	"testing"

	udpatypev1 "github.com/cncf/xds/go/udpa/type/v1"
	xdstypev3 "github.com/cncf/xds/go/xds/type/v3"
	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	// hush is what must not be shown wherever it stands. Its length is a multiple
	// of three, so that its base64 is found in that of what ends with it.
	hush       = "hush-hush"
	hushBase64 = "aHVzaC1odXNo"

	contextType = resource.APITypePrefix + "envoy.extensions.transport_sockets.tls.v3.UpstreamTlsContext"
	structType  = resource.APITypePrefix + "google.protobuf.Struct"
	unheard     = "type.googleapis.com/example.Unheard"
)

func stored(tb testing.TB, packed *anypb.Any) *wire.Resource {
	tb.Helper()
	r, err := wire.NewResource(&discoveryv3.Resource{Name: "n", Version: "1", Resource: packed})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

func certificate() *tlsv3.TlsCertificate {
	return &tlsv3.TlsCertificate{CertificateChain: inline("chain"), PrivateKey: inline(hush), Password: inline(hush)}
}

func secretResource() *anypb.Any {
	return encoded.Any(&tlsv3.Secret{Name: "cert", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: certificate()}})
}

func tlsContext() *tlsv3.UpstreamTlsContext {
	return &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{certificate()}}}
}

// within is a cluster with a payload in it.
func within(packed *anypb.Any) *anypb.Any {
	return encoded.Any(&clusterv3.Cluster{TypedExtensionProtocolOptions: map[string]*anypb.Any{"a": packed}})
}

// nested puts a payload into so many others.
func nested(packed *anypb.Any, times int) *anypb.Any {
	for range times {
		packed = encoded.Any(&discoveryv3.Resource{Resource: packed})
	}
	return packed
}

// withUnknownField adds a field that m's type does not have.
func withUnknownField[M proto.Message](m M) M {
	m.ProtoReflect().SetUnknown(append([]byte{0xfa, 0xff, 0x03, byte(len(hush))}, hush...))
	return m
}

// typedStruct writes a payload as a TypedStruct.
func typedStruct(typeURL, text string) *xdstypev3.TypedStruct {
	value := new(structpb.Struct)
	if err := value.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return &xdstypev3.TypedStruct{TypeUrl: typeURL, Value: value}
}

func TestJSON_OPS6(t *testing.T) {
	const (
		key        = `{"common_tls_context":{"tls_certificates":[{"private_key":{"inline_string":"` + hush + `"}}]},"unheard":"` + hush + `"}`
		redactedIs = `"redacted":"[redacted]"}`
		unknownIs  = `"bytes":9,"note":"of a type that this build does not know"}`
	)
	// One line for each of what is shown alike, whatever Unknown says.
	for name, tt := range map[string]struct {
		typeURL string
		payload *anypb.Any
		want    string
	}{
		"a cluster":                  {resource.ClusterType, encoded.Any(&clusterv3.Cluster{Name: "a", AltStatName: "b"}), `{"@type":"` + resource.ClusterType + `","name":"a","alt_stat_name":"b"}`},
		"under another prefix":       {"x", &anypb.Any{TypeUrl: "p.io/envoy.config.core.v3.Node", Value: []byte("\x0a\x01n")}, `{"@type":"p.io/envoy.config.core.v3.Node","id":"n"}`},
		"no payload":                 {resource.ClusterType, nil, ""},
		"OPS-6 a secret":             {resource.SecretType, secretResource(), `{"@type":"` + resource.SecretType + `",` + redactedIs},
		"OPS-6 a secret of v2":       {"x", &anypb.Any{TypeUrl: "type.googleapis.com/envoy.api.v2.auth.Secret", Value: []byte(hush)}, `{"@type":"type.googleapis.com/envoy.api.v2.auth.Secret",` + redactedIs},
		"OPS-6 a list of secrets":    {"x", &anypb.Any{TypeUrl: resource.SecretType + "Collection", Value: []byte(hush)}, `{"@type":"` + resource.SecretType + `Collection",` + redactedIs},
		"OPS-6 in a secret response": {resource.SecretType, &anypb.Any{TypeUrl: unheard, Value: []byte(hush)}, `{"@type":"` + unheard + `",` + redactedIs},
		"OPS-6 a secret within":      {"x", within(secretResource()), `{"@type":"` + resource.ClusterType + `","typed_extension_protocol_options":{"a":{"@type":"` + structType + `","value":{"@type":"` + resource.SecretType + `",` + redactedIs + `}}}`},
		"OPS-6 fields":               {"x", encoded.Any(certificate()), `{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.TlsCertificate","certificate_chain":{"inline_string":"chain"},"private_key":{"inline_string":"[redacted]"},"password":{"inline_string":"[redacted]"}}`},
		"OPS-6 a list that is sensitive": {
			"x", encoded.Any(&tlsv3.TlsSessionTicketKeys{Keys: []*corev3.DataSource{inline(hush)}}),
			`{"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.TlsSessionTicketKeys"}`,
		},
		"OPS-6 a field that nobody knows": {"x", encoded.Any(withUnknownField(&corev3.Node{Id: "n"})), `{"@type":"type.googleapis.com/envoy.config.core.v3.Node","id":"n"}`},
		"OPS-6 a key in a TypedStruct": {
			"x", encoded.Any(typedStruct(contextType, key)),
			`{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"` + contextType + `","value":{"common_tls_context":{"tls_certificates":[{"private_key":{"inline_string":"[redacted]"}}]}}}`,
		},
		"OPS-6 a secret in a TypedStruct": {
			"x", encoded.Any(typedStruct(resource.SecretType, `{"name":"`+hush+`"}`)),
			`{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"` + resource.SecretType + `","value":{"@type":"` + resource.SecretType + `",` + redactedIs + `}`,
		},
		"OPS-6 keys in a Struct": {
			"x", encoded.Any(&clusterv3.Cluster{Metadata: &corev3.Metadata{FilterMetadata: map[string]*structpb.Struct{"f": typedStruct("", `{"api-key":"`+hush+`","list":[{"Access_Token":"`+hush+`"}],"password":{"x":"`+hush+`"},"token_url":"u"}`).Value}}}),
			`{"@type":"` + resource.ClusterType + `","metadata":{"filter_metadata":{"f":{"api-key":"[redacted]","list":[{"Access_Token":"[redacted]"}],"password":"[redacted]","token_url":"u"}}}}`,
		},
		"OPS-6 headers": {
			"x", encoded.Any(&corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: "Authorization", Value: hush}, {Key: "x-api-key", RawValue: []byte(hush)}, {Key: "x-tenant", Value: "t"}}}),
			`{"@type":"type.googleapis.com/envoy.config.core.v3.HeaderMap","headers":[{"key":"Authorization","value":"[redacted]"},{"key":"x-api-key","value":"[redacted]"},{"key":"x-tenant","value":"t"}]}`,
		},
		"a TypedStruct without value": {"x", encoded.Any(&xdstypev3.TypedStruct{TypeUrl: "x/y"}), `{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"x/y"}`},
		"an empty Any within":         {"x", within(&anypb.Any{}), `{"@type":"` + resource.ClusterType + `","typed_extension_protocol_options":{"a":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			for _, u := range []Unknown{BySize, AsBase64} {
				if got := string(new(Secrets).JSON(stored(t, tt.payload), tt.typeURL, u)); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			}
		})
	}
	const brokenIs = `"note":"not what its type says"}`
	endless := &durationpb.Duration{Seconds: 1 << 60}
	for name, tt := range map[string]struct {
		payload          *anypb.Any
		bySize, asBase64 string
	}{
		"VAR-8 an unknown type": {
			&anypb.Any{TypeUrl: unheard, Value: []byte(hush)},
			`{"@type":"` + unheard + `",` + unknownIs,
			`{"@type":"` + unheard + `","value":"` + hushBase64 + `"}`,
		},
		"VAR-8 an unknown type within": {
			within(&anypb.Any{TypeUrl: unheard, Value: []byte(hush)}),
			`{"@type":"` + resource.ClusterType + `","typed_extension_protocol_options":{"a":{"@type":"` + structType + `","value":{"@type":"` + unheard + `",` + unknownIs + `}}}`,
			`{"@type":"` + resource.ClusterType + `","typed_extension_protocol_options":{"a":{"@type":"` + structType + `","value":{"@type":"` + unheard + `","value":"` + hushBase64 + `"}}}}`,
		},
		"VAR-8 an unknown type as a TypedStruct": {
			encoded.Any(typedStruct(unheard, `{"a":"b"}`)),
			`{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"` + unheard + `","value":{"@type":"` + unheard + `","bytes":10,"note":"of a type that this build does not know"}}`,
			`{"@type":"type.googleapis.com/xds.type.v3.TypedStruct","type_url":"` + unheard + `","value":{"a":"b"}}`,
		},
		"a TypedStruct of the old API that is not what it says": {
			encoded.Any(&udpatypev1.TypedStruct{TypeUrl: contextType, Value: typedStruct("", `{"sni":{}}`).Value}),
			`{"@type":"type.googleapis.com/udpa.type.v1.TypedStruct","type_url":"` + contextType + `","value":{"@type":"` + contextType + `","bytes":11,` + brokenIs + `}`,
			`{"@type":"type.googleapis.com/udpa.type.v1.TypedStruct","type_url":"` + contextType + `","value":{"sni":{}}}`,
		},
		"broken": {
			&anypb.Any{TypeUrl: resource.ClusterType, Value: []byte{0xff}},
			`{"@type":"` + resource.ClusterType + `","bytes":1,` + brokenIs,
			`{"@type":"` + resource.ClusterType + `","value":"/w=="}`,
		},
		"OPS-6 what JSON cannot say, with a field that nobody knows": {
			encoded.Any(withUnknownField(&clusterv3.Cluster{ConnectTimeout: endless})),
			`{"@type":"` + resource.ClusterType + `","bytes":25,"note":"cannot be written as JSON"}`,
			`{"@type":"` + resource.ClusterType + `","value":"IgoIgICAgICAgIAQ"}`,
		},
		"OPS-6 a certificate of v2": {
			&anypb.Any{TypeUrl: "type.googleapis.com/envoy.api.v2.auth.TlsCertificate", Value: []byte(hush)},
			`{"@type":"type.googleapis.com/envoy.api.v2.auth.TlsCertificate",` + unknownIs,
			`{"@type":"type.googleapis.com/envoy.api.v2.auth.TlsCertificate","value":"aHVzaC1odXNo"}`,
		},
		"an empty Any": {&anypb.Any{}, `{"@type":"","bytes":0,"note":"of a type that this build does not know"}`, `{"@type":""}`},
	} {
		t.Run(name, func(t *testing.T) {
			for u, want := range map[Unknown]string{BySize: tt.bySize, AsBase64: tt.asBase64} {
				if got := string(new(Secrets).JSON(stored(t, tt.payload), "x", u)); got != want {
					t.Errorf("got  %s\nwant %s", got, want)
				}
			}
		})
	}
	if new(Secrets).JSON(nil, resource.ClusterType, BySize) != nil {
		t.Error("a payload of no resource")
	}
}

// TestJSON_OPS6_nesting: what is secret is not shown at any depth, not even as
// base64 where nothing is looked into any more.
func TestJSON_OPS6_nesting(t *testing.T) {
	for depth := range maxNesting + 3 {
		for name, packed := range map[string]*anypb.Any{
			"a secret":        secretResource(),
			"a key":           encoded.Any(tlsContext()),
			"an opaque field": encoded.Any(withUnknownField(tlsContext())),
			"a TypedStruct":   encoded.Any(typedStruct(contextType, `{"common_tls_context":{"tls_certificates":[{"private_key":{"inline_string":"`+hush+`"}}]}}`)),
		} {
			for _, u := range []Unknown{BySize, AsBase64} {
				got := string(new(Secrets).JSON(stored(t, nested(packed, depth)), "x", u))
				shown := strings.Contains(got, "[redacted]")
				switch {
				case !json.Valid([]byte(got)), strings.Contains(got, hush), strings.Contains(got, hushBase64):
					t.Errorf("%s at depth %d: %s", name, depth, got)
				case depth < maxNesting && !shown, !shown && !strings.Contains(got, tooDeep):
					t.Errorf("%s at depth %d lacks what it should say: %s", name, depth, got)
				}
			}
		}
	}
}

// FuzzJSON checks that any payload can be shown, and that none of an unknown
// type is shown on the admin port.
func FuzzJSON(f *testing.F) {
	for _, packed := range []*anypb.Any{
		secretResource(), within(encoded.Any(tlsContext())), nested(within(secretResource()), 2),
		encoded.Any(typedStruct(contextType, `{"sni":"a"}`)), {TypeUrl: unheard, Value: []byte(hush)},
	} {
		f.Add(packed.TypeUrl, packed.Value)
	}
	f.Fuzz(func(t *testing.T, typeURL string, value []byte) {
		r, err := wire.NewResource(&discoveryv3.Resource{Name: "n", Resource: &anypb.Any{TypeUrl: typeURL, Value: value}})
		if err != nil {
			t.Skip() // no type URL in UTF-8
		}
		for _, u := range []Unknown{BySize, AsBase64} {
			if got := new(Secrets).JSON(r, typeURL, u); !json.Valid(got) {
				t.Errorf("not JSON: %q", got)
			}
		}
		hidden := within(&anypb.Any{TypeUrl: unheard, Value: append(value, hush...)})
		if got := string(new(Secrets).JSON(stored(t, hidden), "x", BySize)); strings.Contains(got, hush) || strings.Contains(got, `"value":"`) {
			t.Errorf("OPS-6: shown: %s", got)
		}
	})
}

// What an operator calls a secret is one wherever it lies.
func TestSecrets_ACC7(t *testing.T) {
	token := func() *anypb.Any { return encoded.Any(&corev3.Node{Id: hush}) }
	nodeType := token().GetTypeUrl()
	s := new(Secrets)
	hides := func(r *wire.Resource, typeURL string) bool {
		return !strings.Contains(string(s.JSON(r, typeURL, AsBase64)), hush)
	}
	for _, want := range []bool{false, true, false} {
		s.Set(nil)
		if want {
			s.Set([]string{nodeType, "example.org/x.Other"})
		}
		for where, r := range map[string]*wire.Resource{
			"a resource": stored(t, token()), "a payload within": stored(t, within(token())),
			"a TypedStruct": stored(t, encoded.Any(typedStruct(nodeType, `{"id":"`+hush+`"}`))),
		} {
			if hides(r, "x") != want || s.Sensitive(r) != want {
				t.Errorf("ACC-7: %s: hidden %t, sensitive %t, want %t", where, hides(r, "x"), s.Sensitive(r), want)
			}
		}
		if s.Has("elsewhere/envoy.config.core.v3.Node") != want || s.Has(nodeType+"Collection") != want || !s.Has(resource.SecretType) || s.Has("x.Another") {
			t.Errorf("ACC-7: types of secrets: %t wanted", want)
		}
	}
}
