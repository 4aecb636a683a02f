package delivery

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	collectionType = cds + "Collection"
	directoryName  = "xdstp://x/envoy.config.cluster.v3.ClusterCollection/d?p=q&r=s"
	directoryName2 = "xdstp://x/envoy.config.cluster.v3.ClusterCollection/d?r=s&p=q"
)

// typed is a resource "name@version" with a payload of a type.
func typed(t *testing.T, typeURL, word string) *wire.Resource {
	t.Helper()
	name, version, _ := strings.Cut(word, "@")
	r, err := wire.NewResource(&discovery.Resource{Name: name, Version: version, Resource: &anypb.Any{TypeUrl: typeURL, Value: []byte(word)}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// LIST-1, LOC-2: which payloads may come under which names in a response for clusters.
func TestPayloadTypes(t *testing.T) {
	for _, tc := range []struct {
		name, typeURL, resource string
		reason                  string // "" if it is accepted
		partly                  bool
		client                  []string
	}{
		{
			name: "LIST-1 NAME-4 a list collection under its own name", typeURL: collectionType, resource: directoryName + "@2",
			client: []string{"CDS +" + directoryName2 + "@2 +a@2"},
		},
		{
			name: "LIST-1 a list collection under the name of a cluster", typeURL: collectionType, resource: nameG1 + "@2", partly: true,
			reason: `resource "` + nameG1 + `" is of type "` + collectionType + `", which its name does not say (LIST-1)`, client: []string{"CDS +a@2"},
		},
		{
			name: "LIST-1 a list collection under an opaque name", typeURL: collectionType, resource: "b@2", partly: true,
			reason: `resource "b" is of type "` + collectionType + `", which its name does not say (LIST-1)`, client: []string{"CDS +a@2"},
		},
		{
			name: "LIST-1 ACK-6 a list collection of another type", typeURL: lds + "Collection", resource: directoryName + "@2",
			reason: "is of type", client: nil,
		},
		{
			name: "LOC-1 a list collection is redirected", typeURL: wire.RedirectTypeURL, resource: directoryName + "@2",
			client: []string{"CDS +" + directoryName2 + "@2 +a@2"},
		},
		{
			name: "LOC-1 a member of a glob is redirected", typeURL: wire.RedirectTypeURL, resource: nameQ + "@2",
			client: []string{"CDS +a@2 +" + nameQ + "@2"},
		},
		{
			name: "LOC-2 a glob is redirected", typeURL: wire.RedirectTypeURL, resource: globQ + "@2", partly: true,
			reason: `glob collection "` + globQ + `" is redirected: only its members may be (LOC-2)`, client: []string{"CDS +a@2"},
		},
		{
			name: "LOC-2 a glob has a payload", typeURL: cds, resource: globQ + "@2", partly: true,
			reason: `glob collection "` + globQ + `" has a payload of type "` + cds + `"`, client: []string{"CDS +a@2"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b", directoryName2, nameG1, globQ)
			b.says(cds, "+a@1", "+"+nameQ+"@1")
			c.collect()
			err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{typed(t, tc.typeURL, tc.resource), resource(cds, "a@2")}})
			rejected, ok := errors.AsType[*cache.RejectedError](err)
			switch {
			case tc.reason == "" && err != nil:
				t.Fatalf("rejected: %v", err)
			case tc.reason != "" && (!ok || !strings.Contains(err.Error(), tc.reason) || rejected.Partly != tc.partly):
				t.Fatalf("got %#v, want %q", err, tc.reason)
			}
			b.expect(c.collect(), tc.client...)
		})
	}
}

// LIST-1: under its own type a list collection is a resource like any other, and the
// client has it under the name that it asked with (NAME-4).
func TestLIST1_ownType(t *testing.T) {
	b := newBed(t, cache.Limits{})
	one, other := b.join(), b.join()
	one.sub(collectionType, directoryName)
	other.sub(collectionType, directoryName2)
	b.connect(0)
	for _, version := range []string{"1", "2"} {
		if err := b.apply(0, &wire.Response{TypeURL: collectionType, Resources: []*wire.Resource{typed(t, collectionType, directoryName+"@"+version)}}); err != nil {
			t.Fatal(err)
		}
		b.expect(one.collect(), " +"+directoryName+"@"+version)
		b.expect(other.collect(), " +"+directoryName2+"@"+version)
	}
	if err := b.apply(0, &wire.Response{TypeURL: collectionType, Removed: []string{directoryName}}); err != nil {
		t.Fatal(err)
	}
	b.expect(other.collect(), " -"+directoryName2)
}

// LIST-1: a state of the world with a bare list collection is rejected, but what has a
// name is taken, and nothing is concluded from what is missing.
func TestLIST1_RES8_unnamedInAState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newStateBed(t).subscribed(cds, "a", "b")
		b.state(cds, "1", "+a@1", "+b@1")
		c.told()
		r := stateOf(cds, "2", "+a@2")
		r.Unnamed = []error{&wire.DecodeError{Field: "resources[1].value", Err: wire.ErrUnnamed}}
		err := b.applyState(r)
		rejected, ok := errors.AsType[*cache.RejectedError](err)
		if !ok || !rejected.Partly || !strings.Contains(err.Error(), "resources[1].value: a payload of this type has no name of its own") {
			t.Fatalf("got %#v", err)
		}
		b.expect(c.told(), "CDS +a")
		b.settle()
		b.expect(c.told())
	})
}
