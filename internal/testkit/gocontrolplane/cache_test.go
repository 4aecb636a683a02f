package gocontrolplane

import (
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestUpdatesAndRemovals(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			a := set(t, c, "a", cluster("a", "1"))
			client := connect(t, c)
			client.subscribe(cds, wildcard)
			client.expect(cds, map[string]string{"a": a})

			b := set(t, c, "b", cluster("b", "1"))
			client.expect(cds, map[string]string{"b": b})
			a = set(t, c, "a", cluster("a", "2"))
			client.expect(cds, map[string]string{"a": a})
			remove(t, c, cds, "b")
			client.expect(cds, nil, "b")
			if v := c.Versions(cds); len(v) != 1 || v["a"] != a {
				t.Errorf("the state is %v", v)
			}
		})
	}
}

// An empty collection is answered, so that a client's start can go on.
func TestWildcardOfNothingIsAnswered(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			client := connect(t, c)
			client.subscribe(cds, wildcard)
			client.expect(cds, nil)
		})
	}
}

// RES-6 is not what these caches do, SUB-9 is.
func TestAbsentNamesAreNotAnswered(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			b := set(t, c, "b", endpoints("b"))
			client := connect(t, c)
			client.subscribe(eds, "a")
			client.subscribe(eds, "b")
			client.expect(eds, map[string]string{"b": b})
			a := set(t, c, "a", endpoints("a"))
			client.expect(eds, map[string]string{"a": a})
		})
	}
}

// SUB-6 is not what these caches do.
func TestSubscribingAgainIsNotAnswered(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			a, b := set(t, c, "a", endpoints("a")), set(t, c, "b", endpoints("b"))
			client := connect(t, c)
			client.subscribe(eds, "a")
			client.expect(eds, map[string]string{"a": a})
			client.subscribe(eds, "a")
			client.subscribe(eds, "b")
			client.expect(eds, map[string]string{"b": b})
			client.unsubscribe(eds, "a")
			client.subscribe(eds, "a")
			client.expect(eds, map[string]string{"a": a})
		})
	}
}

// SUB-8: a name let go beside the wildcard is answered with the resource.
func TestUnsubscribingBesideTheWildcard(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			a := set(t, c, "a", cluster("a", "1"))
			client := connect(t, c)
			client.subscribe(cds, wildcard, "a")
			client.expect(cds, map[string]string{"a": a})
			client.unsubscribe(cds, "a")
			client.expect(cds, map[string]string{"a": a})
		})
	}
}

// SUB-3 and SUB-4 are not what the server does: a request that only unsubscribes
// is a legacy wildcard, and does not end one.
func TestLegacyWildcard(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			a := set(t, c, "a", cluster("a", "1"))
			client := connect(t, c)
			client.unsubscribe(cds, "b")
			client.expect(cds, map[string]string{"a": a})
			client.unsubscribe(cds, wildcard)
			client.expect(cds, nil)
			a = set(t, c, "a", cluster("a", "2"))
			client.expect(cds, map[string]string{"a": a})
		})
	}
}

func TestSubscribingAndUnsubscribingAtOnce(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			b := set(t, c, "b", endpoints("b"))
			client := connect(t, c)
			client.send(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: eds, ResourceNamesSubscribe: []string{"a"}, ResourceNamesUnsubscribe: []string{"a"},
			})
			set(t, c, "a", endpoints("a"))
			client.subscribe(eds, "b")
			client.expect(eds, map[string]string{"b": b})
		})
	}
}

// The two caches differ in what the end of a wildcard means.
func TestUnsubscribingTheWildcard(t *testing.T) {
	for name, test := range map[string]struct {
		made    *ControlPlane
		removed []string
	}{
		"linear":   {New(), []string{"b"}},
		"snapshot": {NewSnapshot(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := started(t, test.made)
			a, b := set(t, c, "a", cluster("a", "1")), set(t, c, "b", cluster("b", "1"))
			client := connect(t, c)
			client.subscribe(cds, wildcard, "a")
			client.expect(cds, map[string]string{"a": a, "b": b})
			client.unsubscribe(cds, wildcard)
			if test.removed != nil {
				client.expect(cds, nil, test.removed...)
			}
			a = set(t, c, "a", cluster("a", "2"))
			client.expect(cds, map[string]string{"a": a})
		})
	}
}

// Versions of names that the request does not subscribe: see the package comment.
func TestVersionsOfOtherNames(t *testing.T) {
	for name, test := range map[string]struct {
		made    *ControlPlane
		removed []string
	}{
		"linear":   {New(), []string{"b"}},
		"snapshot": {NewSnapshot(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := started(t, test.made)
			a, b := set(t, c, "a", endpoints("a")), set(t, c, "b", endpoints("b"))
			client := connect(t, c)
			client.send(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: eds, ResourceNamesSubscribe: []string{"a"},
				InitialResourceVersions: map[string]string{"a": "old", "b": b},
			})
			client.expect(eds, map[string]string{"a": a}, test.removed...)
		})
	}
}

// MuxCache has no cache to ask, and the error is the whole stream's.
func TestTypeWithoutCacheEndsTheStream(t *testing.T) {
	client := connect(t, started(t, New(cds)))
	client.subscribe(cds, wildcard)
	client.expect(cds, nil)
	client.subscribe(eds, "a")
	if _, err := client.stream.Recv(); status.Code(err) != codes.Unknown {
		t.Errorf("the stream ended with %v, expected UNKNOWN", err)
	}
}

func TestResourcesThatCannotBeServed(t *testing.T) {
	c := started(t, New(cds))
	if _, err := c.UpdateResource("a", endpoints("a")); err == nil {
		t.Error("a type without a cache was taken")
	}
	s := started(t, NewSnapshot())
	if _, err := s.UpdateResource("a", cluster("b", "1")); err == nil {
		t.Error("a snapshot took another name than the message's")
	}
}
