package wire

import (
	"testing"
	"time"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A restored resource equals the one that was kept, so that a server that sends it again changes
// nothing.
func TestSUR1Restore(t *testing.T) {
	body := &anypb.Any{TypeUrl: "type.googleapis.com/t", Value: []byte("content")}
	for name, p := range map[string]*discoveryv3.Resource{
		"plain":           {Name: "a", Version: "1", Resource: body},
		"without version": {Name: "a", Resource: body},
		"ttl":             {Name: "a", Version: "1", Resource: body, Ttl: durationpb.New(90*time.Second + 5*time.Nanosecond)},
		"aliases":         {Name: "a", Version: "1", Resource: body, Aliases: []string{"b", "c"}},
		"located":         {ResourceName: &discoveryv3.ResourceName{Name: "a"}, Version: "1", Resource: body},
		"metadata":        {Name: "a", Version: "1", Resource: body, Metadata: &corev3.Metadata{}},
		"without payload": {Name: "a", Version: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := NewResource(p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Restore(r.Raw(), r.TTL())
			if err != nil {
				t.Fatal(err)
			}
			if !got.SameContent(r) || got.Name != r.Name || got.Shown() != r.Shown() || got.TTL() != r.TTL() || got.HasTTL != r.HasTTL ||
				got.TypeURL() != r.TypeURL() || len(got.Aliases()) != len(r.Aliases()) {
				t.Errorf("restored as %+v, was %+v", got, r)
			}
			if !got.Restored() || got.Confirmed().Restored() || !got.Confirmed().SameContent(r) || r.Restored() || !r.AsRestored().Restored() {
				t.Error("the mark is wrong")
			}
		})
	}
	if _, err := Restore([]byte{0xff}, 0); err == nil {
		t.Error("no error for bytes that are no resource")
	}
}
