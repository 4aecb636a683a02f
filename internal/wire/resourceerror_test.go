package wire_test

import (
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	statuspb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

func TestRES9ErrorsAreCutToASizeThatClientsAccept(t *testing.T) {
	const name = "shop"
	detail := &anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.BytesValue", Value: make([]byte, 1<<20)}
	for what, tc := range map[string]struct {
		status     *statuspb.Status
		begins     string
		most       int
		everything bool
	}{
		"a short one is passed on as it is":     {&statuspb.Status{Code: 14, Message: "gone"}, "gone", 64, true},
		"of a long message the beginning stays": {&statuspb.Status{Code: 5, Message: strings.Repeat("é", 2<<20)}, "éé", 16 << 10, false},
		"large details are left out":            {&statuspb.Status{Code: 7, Message: "no", Details: []*anypb.Any{detail}}, "no", 64, false},
	} {
		t.Run("RES-9 "+what, func(t *testing.T) {
			sent := &discoveryv3.ResourceError{ResourceName: &discoveryv3.ResourceName{Name: name}, ErrorDetail: tc.status}
			e, err := wire.NewResourceError(sent)
			if err != nil {
				t.Fatal(err)
			}
			if e.Code != codes.Code(tc.status.GetCode()) || !strings.HasPrefix(e.Message, tc.begins) || e.Size() > tc.most {
				t.Errorf("got code %v, a message of %d bytes and size %d, want code %v, %q… and at most %d",
					e.Code, len(e.Message), e.Size(), tc.status.GetCode(), tc.begins, tc.most)
			}
			for _, as := range []string{name, "other"} {
				var got discoveryv3.ResourceError
				if err := proto.Unmarshal([]byte(e.Encoded(as)), &got); err != nil {
					t.Fatalf("as %q: %v", as, err)
				}
				if n := got.GetResourceName().GetName(); n != as {
					t.Errorf("got the name %q, want %q", n, as)
				}
				if d := got.GetErrorDetail(); d.GetCode() != tc.status.GetCode() || d.GetMessage() != e.Message {
					t.Errorf("as %q: the encoded error has code %d and a message of %d bytes", as, d.GetCode(), len(d.GetMessage()))
				}
				if tc.everything && !proto.Equal(got.GetErrorDetail(), tc.status) {
					t.Errorf("got %v, want %v", got.GetErrorDetail(), tc.status)
				}
			}
		})
	}
}
