package payload_test

import (
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds/payload"
)

func ExampleSecrets_JSON() {
	key := &corev3.DataSource{Specifier: &corev3.DataSource_InlineString{InlineString: "the private key"}}
	certificate, err := anypb.New(&tlsv3.TlsCertificate{PrivateKey: key})
	if err != nil {
		fmt.Println(err)
		return
	}
	unheard := &anypb.Any{TypeUrl: "example.com/Unheard", Value: []byte{1, 2, 3}}
	show := func(packed *anypb.Any, unknown payload.Unknown) {
		r, err := wire.NewResource(&discoveryv3.Resource{Name: "a", Resource: packed})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("%s\n", new(payload.Secrets).JSON(r, packed.GetTypeUrl(), unknown))
	}
	show(certificate, payload.BySize)
	show(unheard, payload.BySize)
	show(unheard, payload.AsBase64)
	// Output:
	// {"@type":"type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.TlsCertificate","private_key":{"inline_string":"[redacted]"}}
	// {"@type":"example.com/Unheard","bytes":3,"note":"of a type that this build does not know"}
	// {"@type":"example.com/Unheard","value":"AQID"}
}
