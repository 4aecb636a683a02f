package stateclient

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// raw is a message that a server sends as it is.
type raw []byte

type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	if b, ok := v.(raw); ok {
		return mem.BufferSlice{mem.SliceBuffer(b)}, nil
	}
	return c.CodecV2.Marshal(v)
}

func TestResponses(t *testing.T) {
	type step struct {
		send    []string
		changes []string
		answer  string // after type and names
	}
	const dir = "xdstp://auth/envoy.config.cluster.v3.Cluster/dir/"
	for _, tt := range []struct {
		name      string
		typeURL   string // clusterType if ""
		subscribe []string
		steps     []step
		held      []string
		states    map[string]xdsclient.State
	}{{
		name: "RES-8 what a full-state response does not hold is removed",
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"b@2"}, []string{"changed b", "removed a"}, "v=2 n=n2"},
			{[]string{"b@2"}, []string{"unchanged b"}, "v=3 n=n3"},
			{nil, []string{"removed b"}, "v=4 n=n4"},
		},
	}, {
		name: "RES-8 a name that was there and is not", subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1"}, []string{"added a"}, "v=1 n=n1"},
			{[]string{"b@1"}, []string{"added b", "removed a"}, "v=2 n=n2"},
		},
		held:   []string{"b"},
		states: map[string]xdsclient.State{"a": xdsclient.NotExisting, "b": xdsclient.Present},
	}, {
		name: "RES-7 absence at first says nothing", subscribe: []string{"a", "b"},
		steps:  []step{{[]string{"a@1"}, []string{"added a"}, "v=1 n=n1"}},
		held:   []string{"a"},
		states: map[string]xdsclient.State{"a": xdsclient.Present, "b": xdsclient.Unanswered},
	}, {
		name: "RES-3 absence of other types says nothing", typeURL: endpointType, subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1"}, []string{"added a"}, "v=1 n=n1"},
			{[]string{"b@1"}, []string{"added b"}, "v=2 n=n2"},
			{nil, nil, "v=3 n=n3"},
		},
		held: []string{"a", "b"},
	}, {
		name: "RES-13 wrapped resources with versions", subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1=7", "b@1"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"a@2=7", "b@1"}, []string{"unchanged a", "unchanged b"}, "v=2 n=n2"},
			{[]string{"a@2=8", "b@1"}, []string{"changed a", "unchanged b"}, "v=3 n=n3"},
		},
		held: []string{"a", "b"},
	}, {
		name: "TTL-3 heartbeats are no list of what there is",
		steps: []step{
			{[]string{"a@1=7", "b@1=7"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"a=7"}, []string{"heartbeat a"}, "v=2 n=n2"},
		},
		held: []string{"a", "b"},
	}, {
		name: "ERR-1 errors that keep and errors that drop", subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"!a", "?b"}, []string{"failed a", "failed b"}, "v=2 n=n2"},
		},
		held:   []string{"b"},
		states: map[string]xdsclient.State{"a": xdsclient.Failing, "b": xdsclient.Failing},
	}, {
		name: "ERR-1 RES-8 what lacks after an error that keeps it is not gone",
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"a@1", "?b"}, []string{"unchanged a", "failed b"}, "v=2 n=n2"},
			{[]string{"a@1"}, []string{"unchanged a"}, "v=3 n=n3"},
			{[]string{"a@1", "b@1"}, []string{"unchanged a", "unchanged b"}, "v=4 n=n4"},
			{[]string{"a@1"}, []string{"unchanged a", "removed b"}, "v=5 n=n5"},
		},
		held: []string{"a"},
	}, {
		name: "ERR-1 RES-8 an error beside the resource excuses nothing",
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a", "added b"}, "v=1 n=n1"},
			{[]string{"a@1", "?b"}, []string{"unchanged a", "failed b"}, "v=2 n=n2"},
			{[]string{"a@1", "b@1", "?a", "?b"}, []string{"unchanged a", "unchanged b", "failed a", "failed b"}, "v=3 n=n3"},
			{nil, []string{"removed a", "removed b"}, "v=4 n=n4"},
		},
	}, {
		name: "ERR-1 the wildcard as a whole",
		steps: []step{
			{[]string{"a@1"}, []string{"added a"}, "v=1 n=n1"},
			{[]string{"a@1", "?"}, []string{"unchanged a", "failed "}, "v=2 n=n2"},
		},
		held: []string{"a"},
	}, {
		name: "SUB-13 what was not asked for", subscribe: []string{"a"},
		steps: []step{{[]string{"a@1", "b@1"}, []string{"added a", "unrequested b"}, "v=1 n=n1"}},
		held:  []string{"a"},
	}, {
		name: "GLOB-7 members of a glob", subscribe: []string{dir + "*"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a", "added " + dir + "b"}, "v=1 n=n1"},
			{[]string{dir + "b@1"}, []string{"unchanged " + dir + "b", "removed " + dir + "a"}, "v=2 n=n2"},
		},
		held: []string{dir + "b"},
	}, {
		name: "ACK-6 ACK-2 a name twice: the NACK has the version that was accepted",
		steps: []step{
			{[]string{"a@1", "a@2"}, []string{`error the response names "a" twice`}, `nack=n1(the response names "a" twice)`},
			{[]string{"a@1"}, []string{"added a"}, "v=2 n=n2"},
			{[]string{"b@1", "b@1"}, []string{`error the response names "b" twice`}, `v=2 nack=n3(the response names "b" twice)`},
		},
		held: []string{"a"},
	}, {
		name: "NAME-9 a resource without a name",
		held: []string{""},
		steps: []step{
			{[]string{"@1"}, []string{"added "}, "v=1 n=n1"},
		},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rec := newScript(), new(recorder)
				url, head := clusterType, "ads: Cluster "
				if tt.typeURL != "" {
					url, head = tt.typeURL, "ads: ClusterLoadAssignment "
				}
				c := New(serve(t, s), xdsclient.Options{OnResponse: rec.record})
				c.Subscribe(url, tt.subscribe...)
				running(t, c)
				s.next()
				for i, step := range tt.steps {
					version := string(rune('1' + i))
					s.send(t, "ads", response(url, version, step.send...))
					expect(t, "changes of response "+version, step.changes, rec.next())
					names := "[" + strings.Join(tt.subscribe, " ") + "] "
					expect(t, "answer "+version, []string{head + names + step.answer}, s.next())
				}
				for _, name := range tt.held {
					if _, ok := c.Get(url, name); !ok {
						t.Errorf("%s is not held", name)
					}
				}
				expect(t, "Len", len(tt.held), c.Len(url))
				for name, want := range tt.states {
					expect(t, "state of "+name, want, c.State(url, name))
				}
			})
		})
	}
}

func TestACK4_versions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{Keep: xdsclient.KeepResources})
		c.Subscribe(clusterType)
		running(t, c)
		r := response(clusterType, "1", "a@1", "b@1=7")
		s.send(t, "ads", r)
		a, _ := c.Get(clusterType, "a")
		if a.Version == "" || a.Version != a.Resource.Digest() {
			t.Errorf("version %q, want the digest %q", a.Version, a.Resource.Digest())
		}
		if got := a.Resource.TypeURL(); got != clusterType {
			t.Errorf("payload of type %q", got)
		}
		b, _ := c.Get(clusterType, "b")
		expect(t, "version of a wrapped resource", "7", b.Version)
	})
}

func TestACK6_otherTypeAndBrokenEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rec := newScript(), new(recorder)
		c := New(serve(t, s), xdsclient.Options{OnResponse: rec.record})
		c.Subscribe(endpointType, "e")
		running(t, c)
		s.next()
		const other = "a response for a type that was not requested on this stream"
		s.send(t, "ads", response(clusterType, "1", "a@1"))
		expect(t, "answer", []string{"ads: Cluster [] nack=n1(" + other + ")"}, s.next())

		mixed := response(endpointType, "2")
		mixed.Resources = []*anypb.Any{element(clusterType, "e@1")}
		s.send(t, "ads", mixed)
		const wrong = `the resource "e" is a "` + clusterType + `" in a response for "` + endpointType + `"`
		expect(t, "answer", []string{"ads: ClusterLoadAssignment [e] nack=n2(" + wrong + ")"}, s.next())

		// resources[0] ends in the middle of its tag.
		broken := raw("\x12\x01\x80\x22" + string(rune(len(endpointType))) + endpointType + "\x2a\x02n3")
		if err := s.stream("ads").SendMsg(broken); err != nil {
			t.Fatal(err)
		}
		got := s.next()
		if len(got) != 1 || !strings.HasPrefix(got[0], "ads: ClusterLoadAssignment [e] nack=n3(wire: cannot decode resources[0]: ") {
			t.Errorf("answer %q", got)
		}
		expect(t, "seen", 3, len(rec.next()))
		expect(t, "held", 0, c.Len(endpointType))
	})
}

func TestACK2_rejectedByTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		c := New(serve(t, s), xdsclient.Options{OnResponse: func(r *xdsclient.Response) error {
			if r.Count(xdsclient.Changed) > 0 {
				return errors.New("not this one")
			}
			return nil
		}})
		c.Subscribe(clusterType)
		running(t, c)
		s.next()
		s.send(t, "ads", response(clusterType, "1", "a@1"))
		s.send(t, "ads", response(clusterType, "2", "a@2"))
		expect(t, "answers", []string{"ads: Cluster [] v=1 n=n1", "ads: Cluster [] v=1 nack=n2(not this one)"}, s.next())
	})
}
