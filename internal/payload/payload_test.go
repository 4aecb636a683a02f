package payload

import (
	"strings"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const hush = "hush-hush"

func packed(t *testing.T, m proto.Message) *anypb.Any {
	t.Helper()
	a, err := anypb.New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func encoded(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(packed(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func inline(s string) *corev3.DataSource {
	return &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: s}}
}

func clusterWith(socket *anypb.Any) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: "backend", TransportSocket: &corev3.TransportSocket{
		Name: "tls", ConfigType: &corev3.TransportSocket_TypedConfig{TypedConfig: socket},
	}}
}

func TestJSON_OPS6(t *testing.T) {
	key := &tlsv3.TlsCertificate{CertificateChain: inline("public chain"), PrivateKey: inline(hush)}
	upstreamTLS := &tlsv3.UpstreamTlsContext{CommonTlsContext: &tlsv3.CommonTlsContext{TlsCertificates: []*tlsv3.TlsCertificate{key}}}
	unknown := &anypb.Any{TypeUrl: "type.googleapis.com/example.Unheard", Value: []byte(hush)}
	broken := &anypb.Any{TypeUrl: packed(t, &corev3.Node{}).TypeUrl, Value: []byte{0xff, 'h', 'u', 's', 'h'}}
	for _, tt := range []struct {
		name    string
		payload []byte
		want    []string
	}{
		{"a cluster", encoded(t, clusterWith(nil)), []string{`"name":"backend"`, "config.cluster.v3.Cluster"}},
		{"OPS-6 a secret as a whole", encoded(t, &tlsv3.Secret{Name: "s", Type: &tlsv3.Secret_TlsCertificate{TlsCertificate: key}}),
			[]string{Redacted, "tls.v3.Secret"}},
		{"OPS-6 a private key inside a nested Any", encoded(t, clusterWith(packed(t, upstreamTLS))), []string{"public chain", Redacted}},
		{"OPS-6 a secret inside a nested Any", encoded(t, clusterWith(packed(t, &tlsv3.Secret{
			Type: &tlsv3.Secret_GenericSecret{GenericSecret: &tlsv3.GenericSecret{Secret: inline(hush)}},
		}))), []string{Redacted, `"backend"`}},
		{"VAR-8 an unknown nested type", encoded(t, clusterWith(unknown)), []string{"example.Unheard", "does not know", `"bytes":9`}},
		{"a nested payload that is broken", encoded(t, clusterWith(broken)), []string{"undecodable", `"backend"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := JSON(tt.payload)
			if err != nil {
				t.Fatal(err)
			}
			flat := strings.ReplaceAll(string(got), " ", "")
			for _, want := range tt.want {
				if !strings.Contains(flat, strings.ReplaceAll(want, " ", "")) {
					t.Errorf("%s lacks %s", got, want)
				}
			}
			if strings.Contains(string(got), hush) {
				t.Errorf("OPS-6: %s gives the secret away", got)
			}
		})
	}
}

func TestJSON_Errors(t *testing.T) {
	b, err := proto.Marshal(&anypb.Any{TypeUrl: packed(t, &corev3.Node{}).TypeUrl, Value: []byte{0xff}})
	if err != nil {
		t.Fatal(err)
	}
	for _, payload := range [][]byte{b, {0xff}} {
		if got, err := JSON(payload); err == nil {
			t.Errorf("JSON(%x) = %s, want an error", payload, got)
		}
	}
}
