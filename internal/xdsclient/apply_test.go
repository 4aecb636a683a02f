package xdsclient

import (
	"errors"
	"strings"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const dir = "xdstp://auth/envoy.config.cluster.v3.Cluster/dir/"

func TestResponses(t *testing.T) {
	type step struct {
		send    []string
		changes []string
		nack    string // the reason; "" for an ACK
	}
	const incrementalOnly, sotwOnly = 1, 2
	for _, tt := range []struct {
		name      string
		only      int
		typeURL   string // clusterType if ""
		subscribe []string
		steps     []step
		held      []string
		unsaid    []string // names of which the server has yet to say something
		then      func(t *testing.T, c *Client)
	}{{
		name: "RES-1 RES-8 added, changed, unchanged, removed",
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, ""},
			{[]string{"a@1", "b@2"}, []string{"unchanged a 1>1", "changed b 1>2"}, ""},
			{[]string{"b@2", "-a"}, []string{"unchanged b 2>2", "removed a 1>"}, ""},
			{[]string{"-b"}, []string{"removed b 2>"}, ""},
		},
	}, {
		name: "RES-8 a name that was there and is not", subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1"}, []string{"added a >1"}, ""},
			{[]string{"b@1", "-a"}, []string{"added b >1", "removed a 1>"}, ""},
		},
		held: []string{"b@1"},
	}, {
		name: "RES-7 absence at first says nothing", subscribe: []string{"a", "b"},
		steps:  []step{{[]string{"a@1"}, []string{"added a >1"}, ""}},
		held:   []string{"a@1"},
		unsaid: []string{"b"},
	}, {
		name: "RES-3 absence of other types says nothing", only: sotwOnly, typeURL: endpointType, subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1"}, []string{"added a >1"}, ""},
			{[]string{"b@1"}, []string{"added b >1"}, ""},
			{nil, nil, ""},
		},
		held: []string{"a@1", "b@1"},
	}, {
		name: "ACK-4 without a version everything sent has changed", only: incrementalOnly,
		steps: []step{
			{[]string{"a@"}, []string{"added a"}, ""},
			{[]string{"a@"}, []string{"changed a"}, ""},
		},
		held: []string{"a@"},
	}, {
		name: "ACK-4 RES-13 wrapped resources have versions, others digests", only: sotwOnly, subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@7/1", "=b@1"}, []string{"added a >7", "added b >digest"}, ""},
			{[]string{"a@7/2", "=b@1"}, []string{"unchanged a 7>7", "unchanged b digest>digest"}, ""},
			{[]string{"a@8/2", "=b@2"}, []string{"changed a 7>8", "changed b digest>digest"}, ""},
			{[]string{"-a", "-b"}, []string{"removed a 8>", "removed b digest>"}, ""},
		},
	}, {
		name: "NAME-9 a resource without a name",
		steps: []step{
			{[]string{"@1"}, []string{"added  >1"}, ""},
		},
		held: []string{"@1"},
	}, {
		name: "SUB-1 the wildcard has yet to be answered after a name was", subscribe: []string{"a"},
		steps: []step{{[]string{"a@1"}, []string{"added a >1"}, ""}},
		held:  []string{"a@1"},
		then: func(t *testing.T, c *Client) {
			t.Helper()
			expect(t, "unanswered", nil, c.Unanswered())
			c.Subscribe(clusterType, Wildcard)
			expect(t, "unanswered", []string{clusterType}, c.Unanswered())
		},
	}, {
		name: "RES-6 SUB-9 a name that does not exist, and then does", only: incrementalOnly, subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"-a", "-b"}, []string{"absent a", "absent b"}, ""},
			{[]string{"a@1"}, []string{"added a >1"}, ""},
		},
		held: []string{"a@1"},
	}, {
		name: "RES-16 TTL-3 without payload", subscribe: []string{"a", "b", "c"},
		steps: []step{
			{[]string{"a@1", "b@1!", "c@1"}, []string{"added a >1", "absent b >1", "added c >1"}, ""},
			{[]string{"a@1!"}, []string{"heartbeat a 1>1"}, ""}, // no list of what there is
			{[]string{"a@2!", "c@1"}, []string{"removed a 1>2", "unchanged c 1>1"}, ""},
		},
		held: []string{"c@1"},
	}, {
		name: "ERR-1 errors that keep and errors that drop", subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, ""},
			{[]string{"!a", "?b"}, []string{"failed a 1>", "failed b 1>"}, ""},
		},
		held: []string{"b@1"},
	}, {
		name: "ERR-1 GLOB-4 a glob that does not exist", subscribe: []string{dir + "*"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a >1", "added " + dir + "b >1"}, ""},
			{
				[]string{"-" + dir + "a", "!" + dir + "*"},
				[]string{"removed " + dir + "a 1>", "removed " + dir + "b 1>", "failed " + dir + "*"}, "",
			},
		},
	}, {
		name: "ERR-1 RES-8 what lacks after an error that keeps it is not gone", only: sotwOnly,
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, ""},
			{[]string{"a@1", "?b"}, []string{"unchanged a 1>1", "failed b 1>"}, ""},
			{[]string{"a@1"}, []string{"unchanged a 1>1"}, ""},
			{[]string{"a@1", "b@1"}, []string{"unchanged a 1>1", "unchanged b 1>1"}, ""},
			{[]string{"a@1"}, []string{"unchanged a 1>1", "removed b 1>"}, ""},
		},
		held: []string{"a@1"},
	}, {
		name: "ERR-1 RES-8 an error beside the resource excuses nothing", only: sotwOnly,
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, ""},
			{[]string{"a@1", "?b"}, []string{"unchanged a 1>1", "failed b 1>"}, ""},
			{[]string{"a@1", "b@1", "?a", "?b"}, []string{"unchanged a 1>1", "unchanged b 1>1", "failed a 1>", "failed b 1>"}, ""},
			{nil, []string{"removed a 1>", "removed b 1>"}, ""},
		},
	}, {
		name: "ERR-1 the wildcard as a whole",
		steps: []step{
			{[]string{"a@1"}, []string{"added a >1"}, ""},
			{[]string{"a@1", "?"}, []string{"unchanged a 1>1", "failed "}, ""},
		},
		held: []string{"a@1"},
	}, {
		name: "SUB-13 what was not asked for", subscribe: []string{"a"},
		steps: []step{{[]string{"a@1", "b@1"}, []string{"added a >1", "unrequested b >1"}, ""}},
		held:  []string{"a@1"},
	}, {
		name: "RES-10 asked for by an alias, removed by its own name", subscribe: []string{"www", "w3"},
		steps: []step{
			{[]string{"host|www@1"}, []string{"added host >1"}, ""},
			{[]string{"host|w3@2"}, []string{"changed host 1>2"}, ""},
			{[]string{"-host"}, []string{"removed host 2>"}, ""},
		},
	}, {
		name: "RES-10 removed by an alias", only: incrementalOnly, subscribe: []string{"www"},
		steps: []step{
			{[]string{"host|www@1"}, []string{"added host >1"}, ""},
			{[]string{"-www"}, []string{"removed host 1>", "absent www"}, ""},
		},
	}, {
		name: "GLOB-1 members directly in the directory", subscribe: []string{dir + "*"},
		steps: []step{{
			[]string{dir + "a@1", dir + "sub/b@1", dir + "c?x=y@1"},
			[]string{"added " + dir + "a >1", "unrequested " + dir + "sub/b >1", "unrequested " + dir + "c?x=y >1"}, "",
		}},
		held: []string{dir + "a@1"},
	}, {
		name: "GLOB-4 GLOB-5 a glob is empty, and what was named stays", only: incrementalOnly, subscribe: []string{dir + "*", dir + "b"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a >1", "added " + dir + "b >1"}, ""},
			{[]string{"-" + dir + "*"}, []string{"removed " + dir + "a 1>", "absent " + dir + "*"}, ""},
		},
		held: []string{dir + "b@1"},
	}, {
		name: "GLOB-7 a member goes", subscribe: []string{dir + "*"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a >1", "added " + dir + "b >1"}, ""},
			{[]string{dir + "b@1", "-" + dir + "a"}, []string{"unchanged " + dir + "b 1>1", "removed " + dir + "a 1>"}, ""},
		},
		held: []string{dir + "b@1"},
	}, {
		name: "NAME-3 answered in another spelling", subscribe: []string{dir + "a?x=1&y=2"},
		steps: []step{{[]string{dir + "a?y=2&x=1@1"}, []string{"added " + dir + "a?y=2&x=1 >1"}, ""}},
		held:  []string{dir + "a?y=2&x=1@1"},
	}, {
		name: "ACK-6 a name twice",
		steps: []step{
			{[]string{"a@1", "a@2"}, []string{`error the response names "a" twice`}, `the response names "a" twice`},
			{[]string{"a@1"}, []string{"added a >1"}, ""},
		},
		held: []string{"a@1"},
	}, {
		name: "ACK-6 sent and removed", only: incrementalOnly,
		steps: []step{
			{[]string{"a@1", "-a"}, []string{`error the response both sends and removes "a"`}, `the response both sends and removes "a"`},
			{[]string{"-a", "-a"}, []string{"absent a", "absent a"}, ""},
		},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			forms := variants()
			switch tt.only {
			case incrementalOnly:
				forms = []variant{forms[0], forms[2]}
			case sotwOnly:
				forms = []variant{forms[1], forms[3], forms[4]}
			}
			url := clusterType
			if tt.typeURL != "" {
				url = tt.typeURL
			}
			over(t, forms, func(s *script) {
				rec := new(recorder)
				c := s.client(Options{OnResponse: rec.record})
				c.Subscribe(url, tt.subscribe...)
				running(s.T, c)
				for i, step := range tt.steps {
					number := string(rune('1' + i))
					s.send(url, number, step.send...)
					expect(s.T, "changes of response "+number, step.changes, rec.next())
					answer := "ack n" + number
					if step.nack != "" {
						answer = "nack n" + number + " " + step.nack
					}
					expect(s.T, "answer "+number, []string{answer}, s.answered())
				}
				expect(s.T, "held", tt.held, holds(c, url))
				expect(s.T, "Len", len(tt.held), c.Len(url))
				var unsaid []string
				for _, name := range c.types[url].sortedNames() {
					if !c.types[url].names[name] {
						unsaid = append(unsaid, name)
					}
				}
				expect(s.T, "names without an answer", tt.unsaid, unsaid)
				if tt.then != nil {
					tt.then(s.T, c)
				}
			})
		})
	}
}

// holds gives what a client holds of a type, as elements of a response, in order.
func holds(c *Client, typeURL string) []string {
	versions := c.Versions(typeURL)
	var all []string
	for _, name := range sorted(versions) {
		all = append(all, name+"@"+versions[name])
	}
	return all
}

func TestACK6_otherTypeAndBrokenEnvelope(t *testing.T) {
	over(t, variants(), func(s *script) {
		rec := new(recorder)
		c := s.client(Options{OnResponse: rec.record})
		c.Subscribe(endpointType, "e")
		running(s.T, c)
		mixed := s.response(endpointType, "1", "e@1")
		other := packed(clusterType, "e", "1")
		switch m := mixed.(type) {
		case *discoveryv3.DeltaDiscoveryResponse:
			m.Resources[0].Resource = other
		case *discoveryv3.DiscoveryResponse:
			m.Resources = []*anypb.Any{other}
		}
		s.sendMessage(endpointType, mixed)
		reason := `the resource "e" is a "` + clusterType + `" in a response for "` + endpointType + `"`
		if s.form == REST {
			reason = `cannot decode resources[0]: its type is "` + clusterType + `"`
		}
		if got := s.answered(); len(got) != 1 || !strings.HasPrefix(got[0], "nack n1 "+reason) {
			s.Errorf("answer %q, want %q", got, reason)
		}

		// The resource ends in the middle of a tag.
		head := "\x22" + string(rune(len(endpointType))) + endpointType
		broken, reason := wire.Raw("\x12\x01\x80"+head+"\x2a\x02n2"), "wire: cannot decode resources[0]: "
		if s.form == REST {
			broken, reason = wire.Raw(`{"resources": ["`), "cannot decode the response: "
		}
		s.sendMessage(endpointType, broken)
		got := rec.next()
		if len(got) != 2 || !strings.HasPrefix(got[1], "error "+reason) {
			s.Errorf("responses %q", got)
		}
		if got := s.answered(); s.form != REST && (len(got) != 1 || !strings.HasPrefix(got[0], "nack n2 "+reason)) { // JSON that ends has no nonce
			s.Errorf("answer %q", got)
		}
		expect(s.T, "held", 0, c.Len(endpointType))
	})
	over(t, overADS(), func(s *script) {
		c := s.client(Options{})
		c.Subscribe(endpointType, "e")
		running(s.T, c)
		s.send(clusterType, "1", "a@1")
		expect(s.T, "answer", []string{"nack n1 a response for a type that was not requested on this stream"}, s.answered())
		expect(s.T, "held", 0, c.Len(clusterType))
	})
}

func TestACK2_rejectedByTheCaller(t *testing.T) {
	over(t, variants(), func(s *script) {
		c := s.client(Options{OnResponse: func(r *Response) error {
			if r.Count(Changed) > 0 {
				return errors.New("not this one")
			}
			return nil
		}})
		c.Subscribe(clusterType)
		running(s.T, c)
		s.send(clusterType, "1", "a@1")
		s.next()
		s.send(clusterType, "2", "a@2")
		got := s.next()
		if s.form != Incremental && (len(got) != 1 || !strings.Contains(got[0], " v=1 nack=n2(not this one)")) {
			s.Errorf("the NACK has not the version that was accepted: %q", got)
		}
		s.send(clusterType, "3", "a@1", "b@1")
		expect(s.T, "answers", []string{"ack n1", "nack n2 not this one", "ack n3"}, s.answered())
		expect(s.T, "held", []string{"a@1", "b@1"}, holds(c, clusterType))
	})
}

func TestACK4_keep(t *testing.T) {
	for _, keep := range []bool{false, true} {
		over(t, variants(), func(s *script) {
			rec := new(recorder)
			c := s.client(Options{KeepResources: keep, OnResponse: rec.record})
			c.Subscribe(clusterType)
			running(s.T, c)
			s.send(clusterType, "1", "a@1", "b@")
			h, ok := c.Get(clusterType, "a")
			if !ok || h.Version != "1" || (h.Resource != nil) != keep || keep && h.Resource.TypeURL() != clusterType {
				s.Errorf("keep %t: %+v, %t", keep, h, ok)
			}
			rec.next()
			// The version lies, and there is none: the content tells.
			s.send(clusterType, "2", "a@1/9", "b@")
			changes := []string{"unchanged a 1>1", "changed b"}
			if keep {
				changes = []string{"changed a 1>1", "unchanged b"}
			}
			if s.form != Incremental { // the digest is the version
				changes[1] = "unchanged b digest>digest"
			}
			expect(s.T, "changes", changes, rec.next())
			if _, ok := c.Get(clusterType, "z"); ok {
				s.Error("holds what was never sent")
			}
			if _, ok := c.Get(endpointType, "a"); ok {
				s.Error("holds what was never subscribed")
			}
		})
	}
}

// Of a type that nobody knows payloads may be of any type, as Istio's are of its Mesh Configuration Protocol. A list
// collection comes under the type of its members too (LIST-1).
func TestVAR8_LIST1_otherPayloadTypes(t *testing.T) {
	const entries, mcp = "networking.istio.io/v1alpha3/ServiceEntry", "type.googleapis.com/istio.mcp.v1alpha1.Resource"
	for typeURL, payloadType := range map[string]string{entries: mcp, clusterType: clusterType + "Collection"} {
		over(t, []variant{{"VAR-4 incremental ADS", Incremental, false}}, func(s *script) {
			c := s.client(Options{})
			c.Subscribe(typeURL, "shop/a")
			running(s.T, c)
			s.sendMessage(typeURL, &discoveryv3.DeltaDiscoveryResponse{TypeUrl: typeURL, Nonce: "n1", Resources: []*discoveryv3.Resource{
				{Name: "shop/a", Version: "1", Resource: &anypb.Any{TypeUrl: payloadType}},
			}})
			expect(s.T, "answer", []string{"ack n1"}, s.answered())
			expect(s.T, "held", 1, c.Len(typeURL))
		})
	}
}
