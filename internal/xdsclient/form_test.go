package xdsclient

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestServes_VAR1_VAR2_VAR5(t *testing.T) {
	const things = "type.googleapis.com/example.Thing"
	for _, tt := range []struct {
		form    Form
		perType bool
		url     string
		want    string // the form that lacks a service
	}{
		{Incremental, false, things, ""},
		{Incremental, false, resource.VirtualHostType, ""},
		{Incremental, true, resource.VirtualHostType, ""},
		{Incremental, true, things, things + " cannot be asked for: there is no incremental per-type service for it"},
		{SotW, false, clusterType, ""},
		{SotW, false, things, ""},
		{SotW, false, resource.VirtualHostType, "vhds cannot be asked for: there is no state-of-the-world service for it"},
		{SotW, true, clusterType, ""},
		{SotW, true, things, things + " cannot be asked for: there is no state-of-the-world per-type service for it"},
		{SotW, true, resource.VirtualHostType, "vhds cannot be asked for: there is no state-of-the-world service for it"},
		{REST, false, clusterType, ""},
		{REST, false, things, things + " cannot be asked for: there is no REST service for it"},
		{REST, false, resource.VirtualHostType, "vhds cannot be asked for: there is no REST service for it"},
	} {
		c := New(Options{Form: tt.form, PerType: tt.perType})
		err := c.Serves(tt.url)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
		if tt.want == "" || !c.options.PerType {
			continue
		}
		c.Subscribe(tt.url, "a")
		if _, ok := errors.AsType[*UnservedError](c.Follow(t.Context(), Backoff{}, nil)); !ok {
			t.Errorf("form %d follows %s, which has no service", tt.form, tt.url)
		}
	}
}

func TestVAR1_VAR2_oneStreamPerType(t *testing.T) {
	over(t, overGRPC()[2:], func(s *script) {
		var mu sync.Mutex
		var opened []string
		c := s.client(Options{Node: &corev3.Node{Id: "n"}, OnOpen: func(typeURL string) {
			mu.Lock()
			defer mu.Unlock()
			opened = append(opened, typeURL)
		}})
		c.Subscribe(clusterType, "a")
		stop := running(s.T, c)
		expect(s.T, "requests", pick(s.variant, []string{"cds: Cluster node=n +a"}, []string{"cds: Cluster node=n [a]"}), s.next())
		c.Subscribe(endpointType, "e")
		expect(s.T, "requests for a type that is added",
			pick(s.variant, []string{"eds: ClusterLoadAssignment node=n +e"}, []string{"eds: ClusterLoadAssignment node=n [e]"}), s.next())
		s.send(clusterType, "1", "a@1")
		untyped := s.response(endpointType, "2", "e@1")
		switch r := untyped.(type) { // its stream tells the type
		case *discoveryv3.DeltaDiscoveryResponse:
			r.TypeUrl = ""
		case *discoveryv3.DiscoveryResponse:
			r.TypeUrl = ""
		}
		s.sendMessage(endpointType, untyped)
		expect(s.T, "answers", []string{"ack n1", "ack n2"}, s.answered())
		expect(s.T, "held", 2, c.Len(clusterType)+c.Len(endpointType))
		expect(s.T, "streams opened", []string{clusterType, endpointType}, opened)

		s.next()
		s.sendMessage(endpointType, s.response(clusterType, "3", "a@1"))
		const reason = "a response for a type that was not requested on this stream"
		expect(s.T, "ACK-6 another type is refused in the stream's own", pick(s.variant,
			[]string{"eds: ClusterLoadAssignment nack=n3(" + reason + ")"},
			[]string{"eds: ClusterLoadAssignment [e] v=2 nack=n3(" + reason + ")"}), s.next())

		s.end("eds") <- status.Error(codes.ResourceExhausted, "too many")
		synctest.Wait()
		err := stop()
		of, ok := errors.AsType[*StreamError](err)
		if !ok || of.TypeURL != endpointType || status.Code(err) != codes.ResourceExhausted {
			s.Errorf("Run: %v", err)
		}
		running(s.T, c)
		requests := s.next()
		slices.Sort(requests)
		expect(s.T, "RES-12 ACK-5 requests", pick(s.variant,
			[]string{"cds: Cluster node=n +a a@1", "eds: ClusterLoadAssignment node=n +e e@1"},
			[]string{"cds: Cluster node=n [a] v=1", "eds: ClusterLoadAssignment node=n [e] v=2"}), requests)
	})
}

// TestRequests has the requests of both gRPC forms, before and on the stream.
func TestRequests(t *testing.T) {
	type lines = []string
	for _, tt := range []struct {
		name        string
		do, then    func(c *Client) // before the stream, and on it
		incremental [2]lines        // after do and after then
		sotw        [2]lines
	}{{
		name:        "STR-1 STR-2 the node comes with the first request only",
		do:          func(c *Client) { c.Subscribe(clusterType, "a"); c.Subscribe(endpointType, "b") },
		incremental: [2]lines{{"Cluster node=n +a", "ClusterLoadAssignment +b"}},
		sotw:        [2]lines{{"Cluster node=n [a]", "ClusterLoadAssignment [b]"}},
	}, {
		name: "SUB-2 SUB-3 SUB-4 legacy wildcard, names beside it, and names alone",
		do:   func(c *Client) { c.Subscribe(clusterType) },
		then: func(c *Client) {
			c.Subscribe(clusterType, "a")
			c.Unsubscribe(clusterType, "a")
			c.Subscribe(clusterType, "b")
			c.Unsubscribe(clusterType, "*")
			c.Unsubscribe(clusterType, "b")
		},
		incremental: [2]lines{{"Cluster node=n"}, {"Cluster +a", "Cluster -a", "Cluster +b", "Cluster -*", "Cluster -b"}},
		sotw:        [2]lines{{"Cluster node=n []"}, {"Cluster [* a]", "Cluster [*]", "Cluster [* b]", "Cluster [b]", "Cluster []"}},
	}, {
		name:        "SUB-2 a legacy wildcard is taken back, in the state of the world by naming it first",
		do:          func(c *Client) { c.Subscribe(clusterType) },
		then:        func(c *Client) { c.Unsubscribe(clusterType, "*") },
		incremental: [2]lines{{"Cluster node=n"}, {"Cluster -*"}},
		sotw:        [2]lines{{"Cluster node=n []"}, {"Cluster [*]", "Cluster []"}},
	}, {
		name:        "SUB-4 no legacy wildcard in the state of the world for types that are not full-state",
		do:          func(c *Client) { c.Subscribe(endpointType) },
		incremental: [2]lines{{"ClusterLoadAssignment node=n"}},
		sotw:        [2]lines{{"ClusterLoadAssignment node=n [*]"}},
	}, {
		name:        "SUB-3 legacy wildcard and a name before the stream",
		do:          func(c *Client) { c.Subscribe(clusterType); c.Subscribe(clusterType, "a") },
		incremental: [2]lines{{"Cluster node=n", "Cluster +a"}},
		sotw:        [2]lines{{"Cluster node=n [* a]"}},
	}, {
		name:        "SUB-3 without names on the stream, when an empty request would say nothing",
		do:          func(c *Client) { c.Subscribe(clusterType, "a") },
		then:        func(c *Client) { c.Subscribe(clusterType) },
		incremental: [2]lines{{"Cluster node=n +a"}, {"Cluster +*"}},
		sotw:        [2]lines{{"Cluster node=n [a]"}, {"Cluster [* a]"}},
	}, {
		name:        "SUB-3 without names before the stream, beside a name",
		do:          func(c *Client) { c.Subscribe(clusterType, "a"); c.Subscribe(clusterType) },
		incremental: [2]lines{{"Cluster node=n +* +a"}},
		sotw:        [2]lines{{"Cluster node=n [* a]"}},
	}, {
		name: "SUB-2 SUB-3 what is not wanted any more is not requested, nor taken for a wildcard",
		do:   func(c *Client) { c.Subscribe(clusterType, "a"); c.Unsubscribe(clusterType, "a") },
		then: func(c *Client) {
			c.Unsubscribe(clusterType, "b")
			c.Unsubscribe(endpointType, "b")
			c.Unsubscribe(clusterType)
		},
	}, {
		name:        "SUB-1 a type begins on the stream",
		then:        func(c *Client) { c.Subscribe(clusterType, "*", "a"); c.Unsubscribe(clusterType, "*", "b") },
		incremental: [2]lines{nil, {"Cluster node=n +* +a", "Cluster -* -b"}},
		sotw:        [2]lines{nil, {"Cluster node=n [* a]", "Cluster [a]"}},
	}, {
		name:        "SUB-6 WARM-1 a name is asked for again",
		do:          func(c *Client) { c.Subscribe(clusterType, "a") },
		then:        func(c *Client) { c.Subscribe(clusterType, "a") },
		incremental: [2]lines{{"Cluster node=n +a"}, {"Cluster +a"}},
		sotw:        [2]lines{{"Cluster node=n [a]"}, {"Cluster [a]"}},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			over(t, overADS(), func(s *script) {
				c := s.client(Options{Node: &corev3.Node{Id: "n"}})
				if tt.do != nil {
					tt.do(c)
				}
				running(s.T, c)
				want := pick(s.variant, tt.incremental, tt.sotw)
				expect(s.T, "requests", want[0], s.next())
				if tt.then != nil {
					tt.then(c)
				}
				expect(s.T, "requests on the stream", want[1], s.next())
			})
		})
	}
}

func TestRES12_ACK5_reconnect(t *testing.T) {
	over(t, overADS(), func(s *script) {
		c := s.client(Options{Node: &corev3.Node{Id: "n"}})
		c.Subscribe(clusterType)
		c.Subscribe(endpointType, "e", "f")
		stop := running(s.T, c)
		s.send(clusterType, "1", "a@1", "b@2")
		s.send(endpointType, "2", "e@1")
		_ = stop()
		s.next()
		expect(s.T, "held while disconnected", 2, c.Len(clusterType))
		stop = running(s.T, c)
		// Endpoints f are missing: a version would say that they are not.
		expect(s.T, "requests", pick(s.variant,
			[]string{"Cluster node=n a@1 b@2", "ClusterLoadAssignment +e +f e@1"},
			[]string{"Cluster node=n [] v=1", "ClusterLoadAssignment [e f]"}), s.next())
		_ = stop()
		c.Subscribe(clusterType, "c")
		running(s.T, c)
		expect(s.T, "requests with a name more", pick(s.variant,
			[]string{"Cluster node=n a@1 b@2", "Cluster +c", "ClusterLoadAssignment +e +f e@1"},
			[]string{"Cluster node=n [* c]", "ClusterLoadAssignment [e f]"}), s.next())
	})
}
