package xds

import (
	"testing"

	_ "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/endpoint/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	_ "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// The rows say what the API says: each message is there, and its field with the name.
func TestTypes_ADS1_RES2(t *testing.T) {
	for i := range types {
		row := &types[i]
		if known := Find(row.URL); known != row {
			t.Errorf("%s is %v", row.URL, known)
		}
		for _, url := range []string{row.URL, row.V2URL()} {
			if url == "" {
				continue
			}
			if same, known := FindBytes([]byte(url)); same != url || known != row {
				t.Errorf("%s is %s, %v", url, same, known)
			}
			message, err := protoregistry.GlobalTypes.FindMessageByURL(url)
			if err != nil {
				t.Errorf("%s: %v", url, err)
				continue
			}
			if field := message.Descriptor().Fields().ByNumber(protoreflect.FieldNumber(max(1, row.NameField))); (row.NameField != 0) != (field.Kind() == protoreflect.StringKind) {
				t.Errorf("%s has its name in field %d, which is %s", url, row.NameField, field.FullName())
			}
		}
		_, err := protoregistry.GlobalTypes.FindMessageByURL(row.URL + collectionSuffix)
		if linked := err == nil; linked != row.Collections {
			t.Errorf("%s has collections: %t, the API: %t", row.URL, row.Collections, linked)
		}
		for _, to := range row.RefersTo {
			if Find(to) == nil {
				t.Errorf("%s refers to %s, which is not known", row.URL, to)
			}
		}
	}
	if known := Find("type.googleapis.com/acme.Gadget"); known != nil || RankOf("type.googleapis.com/acme.Gadget") != RankOther || Enables("type.googleapis.com/acme.Gadget") {
		t.Errorf("an unknown type is %v", known)
	}
	url := []byte(ClusterType)
	if n := testing.AllocsPerRun(100, func() { FindBytes(url) }); n != 0 {
		t.Errorf("finding a type allocates %v times", n)
	}
}
