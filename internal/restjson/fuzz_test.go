package restjson

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

// FuzzDecodeRequest: any body is a request of the path's type, or refused with a
// message. It has no more values than were counted before.
func FuzzDecodeRequest(f *testing.F) {
	for _, body := range []string{
		`{}`, `{"node":{"id":"n","metadata":{"a":[1,{"b":null}]}},"resource_names":["a"]}`, `{"node":{"metadata":{"a\"":[[],{"":{}}]}},"resource\u005fnames":["a"]}`,
		`{"errorDetail":{"details":[{"@type":"` + unheard + `","a":{}},{"@type":"` + resource.ClusterType + `","name":"c"}]}}`,
		`{"typeUrl":"` + resource.ClusterType + `","versionInfo":"1"}`, `{"resourceLocators":[{"dynamicParameters":{"a":"b"}}]}`, "[", "",
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := httptest.NewRequest(http.MethodPost, clustersPath, bytes.NewReader(body))
		in, err := ReadRequest(httptest.NewRecorder(), r, 1<<16)
		if err == nil {
			var req *discoveryv3.DiscoveryRequest
			if req, err = in.Decode(); err == nil {
				checkRequest(t, in, req)
				return
			}
		}
		refused, ok := errors.AsType[*StatusError](err)
		if !ok || refused.Message == "" || !utf8.ValidString(refused.Message) || refused.Code < 400 || refused.Code > 499 {
			t.Errorf("REST-2: got %v", err)
		}
	})
}

func checkRequest(t *testing.T, in *Incoming, req *discoveryv3.DiscoveryRequest) {
	t.Helper()
	if req.GetTypeUrl() != resource.ClusterType {
		t.Errorf("VAR-10: got %q", req.GetTypeUrl())
	}
	names, node := len(req.GetResourceNames())+len(req.GetResourceLocators()), values(req.GetNode().GetMetadata())
	if names+node > in.Names+in.Others || node > in.Others {
		t.Errorf("LIM-3: %d names and %d values of metadata, %d and %d were counted", names, node, in.Names, in.Others)
	}
	if spelled := !bytes.Contains(in.body, []byte(`\u`)); spelled && in.Presents != (req.GetVersionInfo() != "") {
		t.Errorf("LIM-2: version %q, presents: %t", req.GetVersionInfo(), in.Presents)
	}
}

// values counts the values of a struct.
func values(s *structpb.Struct) (n int) {
	for _, v := range s.GetFields() {
		n += valuesOf(v)
	}
	return n
}

func valuesOf(v *structpb.Value) int {
	n := 1 + values(v.GetStructValue())
	for _, element := range v.GetListValue().GetValues() {
		n += valuesOf(element)
	}
	return n
}

// FuzzReadResponse: any body is a response that can be sent on and read again as
// the same, or refused with a reason that says nothing of a secret.
func FuzzReadResponse(f *testing.F) {
	for typeURL, message := range one() {
		res := OutgoingResource{Resource: stored(f, &discoveryv3.Resource{Name: "x", Version: "1", Resource: encoded.Any(message)})}
		for _, wrapped := range []bool{false, true} {
			encoded, err := EncodeResponse(&Outgoing{VersionInfo: "1", TypeURL: typeURL, Wrapped: wrapped, Resources: []OutgoingResource{res, res}})
			if err != nil {
				f.Fatal(err)
			}
			f.Add([]byte(encoded.Body.String()), typeURL)
		}
	}
	f.Add([]byte(`{"resources":[{"@type":"`+unheard+`"}],"nonce":1}`), resource.ClusterType)
	f.Add([]byte(`{"resources":[{"@type":"`+resource.SecretType+`","name":{"`+hush+`":["`+hush+`"]}}]}`), resource.SecretType)
	f.Fuzz(func(t *testing.T, body []byte, typeURL string) {
		got, err := answer{http.StatusOK, "", string(body)}.read(typeURL, 1<<20)
		if err != nil {
			if undecodable, ok := errors.AsType[*UndecodableError](err); !ok || undecodable.Reason == "" || len(undecodable.Reason) > 1000 {
				t.Errorf("ACK-6: got %v", err)
			}
			return
		}
		out := &Outgoing{VersionInfo: got.Version, TypeURL: got.TypeURL, Nonce: got.Nonce, Wrapped: true}
		for _, r := range got.Resources {
			out.Resources = append(out.Resources, OutgoingResource{Resource: r})
		}
		encoded, err := EncodeResponse(out)
		if err != nil {
			if strings.Contains(err.Error(), "a value that JSON has no form for") {
				return // some values can be read and not written: a path of a FieldMask
			}
			t.Fatal(err)
		}
		again, err := answer{http.StatusOK, "", encoded.Body.String()}.read(typeURL, 8<<20)
		if err != nil {
			t.Fatalf("%v in %s", err, &encoded.Body)
		}
		if len(again.Resources) != len(got.Resources) || again.Version != got.Version || again.Nonce != got.Nonce {
			t.Fatalf("got %+v\nwant %+v", again, got)
		}
		for i, r := range again.Resources {
			if r.Name != got.Resources[i].Name || !bytes.Equal(r.Any(), got.Resources[i].Any()) {
				t.Errorf("got  %q %x\nwant %q %x", r.Name, r.Any(), got.Resources[i].Name, got.Resources[i].Any())
			}
		}
	})
}
