package cache

import (
	"errors"
	"strings"
	"testing"
	"time"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	wireform "github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/emptypb"
)

// An error without a name is that of the name "" where a client asks for that, and of "*" elsewhere. An error of "*" by its
// name never is that of "" (NAME-9, ERR-1).
func TestErrorsWithoutName_NAME9_ERR1(t *testing.T) {
	for _, tc := range []struct {
		name    string
		kind    Kind
		spelled string
		watched string
		failed  bool // the name ""
	}{
		{"a client asks for it", ByName, "", "", true},
		{"a client asks for another name", ByName, "", "a", false},
		{"the error is of the wildcard", ByName, Wildcard, "", false},
		{"it is a member", WholeType, "", "", false},
	} {
		k := newKept(t)
		l := k.listener(NeedsStream)
		if tc.kind == WholeType {
			l.follow(Wildcard)
		} else {
			l.watch(tc.watched)
		}
		k.demand(WholeType)
		if tc.kind == WholeType {
			k.says(WholeType, "+@1")
		}
		k.apply(WholeType, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{{Name: tc.spelled, Code: codes.Internal}}})
		e := k.store.FindTable(cds, tc.kind).Find("")
		if failed := e != nil && e.extra.err != nil; failed != tc.failed {
			t.Errorf("%s: \"\" has the error: %t", tc.name, failed)
		}
	}
}

// A response with nothing but errors that leave their names open is no answer.
func TestOnlyDelays_RES2_ERR1(t *testing.T) {
	later, never := wire.ResourceError{Code: codes.Unavailable}, wire.ResourceError{Code: codes.NotFound}
	one := []string{"a"}
	for name, tc := range map[string]struct {
		update update
		want   bool
	}{
		"a delay":             {update{response: &wire.Response{Errors: []wire.ResourceError{later}}}, true},
		"nothing":             {update{response: &wire.Response{}}, false},
		"the end":             {update{response: &wire.Response{Errors: []wire.ResourceError{never}}}, false},
		"both":                {update{response: &wire.Response{Errors: []wire.ResourceError{later, never}}}, false},
		"the list of all":     {update{response: &wire.Response{Errors: []wire.ResourceError{later}, Complete: true}}, false},
		"beside a resource":   {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, keys: one}, false},
		"beside a removal":    {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, removed: one}, false},
		"beside both of them": {update{response: &wire.Response{Errors: []wire.ResourceError{later}}, keys: one, removed: one}, false},
	} {
		if got := tc.update.onlyDelays(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// The relay serves nothing that a control plane has for some dynamic parameters only, nor takes its word on that for
// one on the name without parameters. It rejects that part of the response with the reason (DYN-1, ACK-6).
func TestConstrained_DYN1_ACK6(t *testing.T) {
	prod := words.Constrained(cds, "x@2")
	for name, tc := range map[string]struct {
		response wire.Response
		also     string // version of "other", which comes with it
	}{
		"a resource":                  {wire.Response{Resources: []*wire.Resource{prod}}, "1"},
		"a resource twice":            {wire.Response{Resources: []*wire.Resource{prod, prod}}, "1"},
		"a resource beside the plain": {wire.Response{Resources: []*wire.Resource{words.Resource(cds, "x@1"), prod}}, "1"},
		"a resource beside another":   {wire.Response{Resources: []*wire.Resource{prod, words.Resource(cds, "other@2")}}, "2"},
		"in a list":                   {wire.Response{State: true, Resources: []*wire.Resource{prod}}, "1"},
		"a removal":                   {wire.Response{Constrained: []string{"x"}}, "1"},
		"an error":                    {wire.Response{Errors: []wire.ResourceError{{Name: "x", Code: codes.NotFound, Constrained: true}}}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			k := asked(t, Source{State: tc.response.State}, "x", "other")
			k.says(WholeType, "+x@1", "+other@1")
			tc.response.TypeURL = cds
			err := k.store.Session().Apply(stream(WholeType), &tc.response, time.Now())
			rejected, ok := errors.AsType[*RejectedError](err)
			if !ok || !rejected.Partly || !strings.Contains(err.Error(), `resource "x" has dynamic_parameter_constraints`) {
				t.Errorf("the server is told: %v", err)
			}
			k.check()
			k.is("x", Present, "1")
			k.is("other", Present, tc.also)
		})
	}
}

// A response that says something of dynamic parameters only does not answer "*": no client is told that there is nothing
// (DYN-1, RES-14).
func TestConstrainedIsNoAnswer_DYN1_RES14(t *testing.T) {
	for name, r := range map[string]wire.Response{
		"a resource": {Resources: []*wire.Resource{words.Constrained(cds, "x@1")}},
		"a removal":  {Constrained: []string{"x"}},
		"an error":   {Errors: []wire.ResourceError{{Name: "x", Code: codes.NotFound, Constrained: true}}},
	} {
		k := newKept(t)
		k.listener(NeedsStream).follow(Wildcard)
		k.demand(WholeType)
		r.TypeURL = cds
		if err := k.store.Session().Apply(stream(WholeType), &r, time.Now()); err == nil {
			t.Errorf("%s is taken", name)
		}
		if c := k.store.FindTable(cds, WholeType).colls[Wildcard]; !c.quiet.answered.IsZero() {
			t.Errorf("%s answers", name)
		}
	}
}

// A response that names something twice is rejected (ACK-6).
func TestTwice_ACK6(t *testing.T) {
	one, bad := words.Resource(cds, "x@1"), words.Resource(cds, "xdstp://%@1")
	for name, tc := range map[string]struct {
		response wire.Response
		twice    bool
	}{
		"a resource twice":           {wire.Response{Resources: []*wire.Resource{one, one}}, true},
		"a resource and its removal": {wire.Response{Resources: []*wire.Resource{one}, Removed: []string{"x"}}, true},
		"two bad names":              {wire.Response{Resources: []*wire.Resource{bad, bad, one}}, false},
	} {
		tc.response.TypeURL = cds
		if _, err := newUpdate(&tc.response, time.Now()); (err != nil) != tc.twice {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of a type that this build does not know, payloads may be of any other type that it does not know. Payloads of a type that
// it knows are for that type only (ACK-6, VAR-8).
func TestPayloadTypes_ACK6_VAR8(t *testing.T) {
	const mcp, entries = "type.googleapis.com/istio.mcp.v1alpha1.Resource", "networking.istio.io/v1alpha3/ServiceEntry"
	for _, tc := range []struct {
		of, payload string
		taken       bool
	}{
		{entries, mcp, true}, {entries, entries, true}, {entries, wire.RedirectTypeURL, true},
		{entries, cds, false}, {entries, "example.com/envoy.extensions.transport_sockets.tls.v3.Secret", false}, {cds, mcp, false}, {cds, "type.googleapis.com/envoy.config.endpoint.v3.ClusterLoadAssignment", false}, {cds + "Collection", mcp, false}, {cds, cds, true},
	} {
		payload, err := anypb.New(&emptypb.Empty{})
		if err != nil {
			t.Fatal(err)
		}
		payload.TypeUrl = tc.payload
		r := new(wire.Response)
		if err := r.Decode(wireform.Bytes(&discoveryv3.DeltaDiscoveryResponse{
			TypeUrl: tc.of, Nonce: "1", Resources: []*discoveryv3.Resource{{Name: "shop/a", Version: "1", Resource: payload}},
		})); err != nil {
			t.Fatal(err)
		}
		u, err := newUpdate(r, time.Now())
		if taken := err == nil && len(u.bad) == 0; taken != tc.taken {
			t.Errorf("a payload of type %s in a response for %s is taken: %t (%v)", tc.payload, tc.of, taken, err)
		}
	}
}
