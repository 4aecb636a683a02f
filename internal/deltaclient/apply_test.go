package deltaclient

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

func TestResponses(t *testing.T) {
	type step struct {
		send    []string
		changes []string
		answer  string
	}
	for _, tt := range []struct {
		name      string
		subscribe []string
		steps     []step
		held      map[string]string
		states    map[string]xdsclient.State
		then      func(t *testing.T, c *xdsclient.Client)
	}{{
		name: "RES-1 added, changed, unchanged, removed",
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, "ack=1"},
			{[]string{"a@1", "b@2"}, []string{"unchanged a 1>1", "changed b 1>2"}, "ack=2"},
			{[]string{"-a"}, []string{"removed a 1>"}, "ack=3"},
			{[]string{"-a"}, []string{"absent a"}, "ack=4"},
		},
		held: map[string]string{"b": "2"},
	}, {
		name: "ACK-4 without a version everything sent has changed",
		steps: []step{
			{[]string{"a@"}, []string{"added a"}, "ack=1"},
			{[]string{"a@"}, []string{"changed a"}, "ack=2"},
		},
		held: map[string]string{"a": ""},
	}, {
		name:      "SUB-1 the wildcard has yet to be answered after a name was",
		subscribe: []string{"a"},
		steps:     []step{{[]string{"a@1"}, []string{"added a >1"}, "ack=1"}},
		held:      map[string]string{"a": "1"},
		then: func(t *testing.T, c *xdsclient.Client) {
			t.Helper()
			expect(t, "unanswered", nil, c.Unanswered())
			c.Subscribe(clusterType, xdsclient.Wildcard)
			expect(t, "unanswered", []string{clusterType}, c.Unanswered())
		},
	}, {
		name:      "RES-6 a name that does not exist",
		subscribe: []string{"a", "b"},
		steps:     []step{{[]string{"-a"}, []string{"absent a"}, "ack=1"}},
		states:    map[string]xdsclient.State{"a": xdsclient.NotExisting, "b": xdsclient.Unanswered, "c": xdsclient.NotSubscribed},
	}, {
		name:      "SUB-9 and then it does",
		subscribe: []string{"a"},
		steps: []step{
			{[]string{"-a"}, []string{"absent a"}, "ack=1"},
			{[]string{"a@1"}, []string{"added a >1"}, "ack=2"},
		},
		held:   map[string]string{"a": "1"},
		states: map[string]xdsclient.State{"a": xdsclient.Present},
	}, {
		name:      "RES-16 without payload",
		subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1", "b@1!"}, []string{"added a >1", "absent b >1"}, "ack=1"},
			{[]string{"a@1!"}, []string{"heartbeat a 1>1"}, "ack=2"},
			{[]string{"a@2!"}, []string{"removed a 1>2"}, "ack=3"},
		},
		states: map[string]xdsclient.State{"a": xdsclient.NotExisting, "b": xdsclient.NotExisting},
	}, {
		name:      "ERR-1 errors that keep and errors that drop",
		subscribe: []string{"a", "b"},
		steps: []step{
			{[]string{"a@1", "b@1"}, []string{"added a >1", "added b >1"}, "ack=1"},
			{[]string{"!a", "?b"}, []string{"failed a 1>", "failed b 1>"}, "ack=2"},
		},
		held:   map[string]string{"b": "1"},
		states: map[string]xdsclient.State{"a": xdsclient.Failing, "b": xdsclient.Failing},
	}, {
		name:      "ERR-1 GLOB-4 a glob that does not exist",
		subscribe: []string{dir + "*"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a >1", "added " + dir + "b >1"}, "ack=1"},
			{
				[]string{"-" + dir + "a", "!" + dir + "*"},
				[]string{"removed " + dir + "a 1>", "removed " + dir + "b 1>", "failed " + dir + "*"}, "ack=2",
			},
		},
		states: map[string]xdsclient.State{dir + "*": xdsclient.Failing},
	}, {
		name:      "SUB-13 what was not asked for",
		subscribe: []string{"a"},
		steps:     []step{{[]string{"a@1", "b@1"}, []string{"added a >1", "unrequested b >1"}, "ack=1"}},
		held:      map[string]string{"a": "1"},
	}, {
		name:      "RES-10 asked for by an alias",
		subscribe: []string{"www", "w3"},
		steps: []step{
			{[]string{"host|www@1"}, []string{"added host >1"}, "ack=1"},
			{[]string{"host|w3@2"}, []string{"changed host 1>2"}, "ack=2"},
			{[]string{"-w3"}, []string{"removed host 2>", "absent w3"}, "ack=3"},
		},
		states: map[string]xdsclient.State{"www": xdsclient.Present, "w3": xdsclient.NotExisting},
	}, {
		name:      "RES-10 removed by its own name",
		subscribe: []string{"www"},
		steps: []step{
			{[]string{"host|www@1"}, []string{"added host >1"}, "ack=1"},
			{[]string{"-host"}, []string{"removed host 1>"}, "ack=2"},
		},
		states: map[string]xdsclient.State{"www": xdsclient.NotExisting},
	}, {
		name:      "GLOB-1 members directly in the directory",
		subscribe: []string{dir + "*"},
		steps: []step{{
			[]string{dir + "a@1", dir + "sub/b@1", dir + "c?x=y@1"},
			[]string{"added " + dir + "a >1", "unrequested " + dir + "sub/b >1", "unrequested " + dir + "c?x=y >1"}, "ack=1",
		}},
		held:   map[string]string{dir + "a": "1"},
		states: map[string]xdsclient.State{dir + "*": xdsclient.Present, dir + "a": xdsclient.NotSubscribed},
	}, {
		name:      "GLOB-4 GLOB-5 a glob is empty, and what was named stays",
		subscribe: []string{dir + "*", dir + "b"},
		steps: []step{
			{[]string{dir + "a@1", dir + "b@1"}, []string{"added " + dir + "a >1", "added " + dir + "b >1"}, "ack=1"},
			{[]string{"-" + dir + "*"}, []string{"removed " + dir + "a 1>", "absent " + dir + "*"}, "ack=2"},
		},
		held:   map[string]string{dir + "b": "1"},
		states: map[string]xdsclient.State{dir + "*": xdsclient.NotExisting, dir + "b": xdsclient.Present},
	}, {
		name:      "NAME-3 answered in another spelling",
		subscribe: []string{dir + "a?x=1&y=2"},
		steps:     []step{{[]string{dir + "a?y=2&x=1@1"}, []string{"added " + dir + "a?y=2&x=1 >1"}, "ack=1"}},
		held:      map[string]string{dir + "a?y=2&x=1": "1"},
		states:    map[string]xdsclient.State{dir + "a?x=1&y=2": xdsclient.Present},
	}, {
		name: "ACK-6 a name twice",
		steps: []step{
			{[]string{"a@1", "a@2"}, []string{`error the response names "a" twice`}, `nack=1(the response names "a" twice)`},
			{[]string{"a@1", "-a"}, []string{`error the response both sends and removes "a"`}, `nack=2(the response both sends and removes "a")`},
		},
		held: map[string]string{},
	}} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rec := newScript(), new(recorder)
				c := New(serve(t, s), xdsclient.Options{OnResponse: rec.record})
				c.Subscribe(clusterType, tt.subscribe...)
				running(t, c)
				s.next()
				for i, step := range tt.steps {
					nonce := string(rune('1' + i))
					s.send(t, response(nonce, step.send...))
					expect(t, "changes of response "+nonce, step.changes, rec.next())
					expect(t, "answer "+nonce, []string{"Cluster " + step.answer}, s.next())
				}
				held := c.Versions(clusterType)
				if len(tt.held) > 0 || len(held) > 0 {
					expect(t, "held", tt.held, held)
				}
				expect(t, "Len", len(held), c.Len(clusterType))
				for name, want := range tt.states {
					expect(t, "state of "+name, want, c.State(clusterType, name))
				}
				if tt.then != nil {
					tt.then(t, c)
				}
			})
		})
	}
}

func TestACK6_otherTypeAndBrokenEnvelope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rec := newScript(), new(recorder)
		c := New(serve(t, s), xdsclient.Options{OnResponse: rec.record})
		c.Subscribe(endpointType)
		running(t, c)
		s.next()
		s.send(t, response("1", "a@1"))
		expect(t, "answer", []string{"Cluster nack=1(" + "a response for a type that was not requested on this stream" + ")"}, s.next())

		// Invalid UTF-8 in an unknown message would not be noticed; in a name it is.
		broken := response("2", "a@1")
		broken.TypeUrl = endpointType
		broken.Resources[0].Name = ""
		broken.Resources[0].ProtoReflect().SetUnknown([]byte{3<<3 | 2, 1, 0xff})
		s.send(t, broken)
		got := s.next()
		if len(got) != 1 || !strings.HasPrefix(got[0], "ClusterLoadAssignment nack=2(wire: cannot decode resources[0].name") {
			t.Errorf("answer %q", got)
		}
		expect(t, "seen", 2, len(rec.next()))
		expect(t, "held", 0, c.Len(endpointType))
	})
}

func TestACK2_rejectedByTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScript()
		reject := errors.New("not this one")
		c := New(serve(t, s), xdsclient.Options{OnResponse: func(r *xdsclient.Response) error {
			if r.Count(xdsclient.Changed) > 0 {
				return reject
			}
			return nil
		}})
		c.Subscribe(clusterType)
		running(t, c)
		s.next()
		s.send(t, response("1", "a@1"))
		s.send(t, response("2", "a@2"))
		s.send(t, response("3", "b@1"))
		expect(t, "answers", []string{"Cluster ack=1", "Cluster nack=2(not this one)", "Cluster ack=3"}, s.next())
		expect(t, "held", map[string]string{"a": "1", "b": "1"}, c.Versions(clusterType))
	})
}

func TestUnsubscribe(t *testing.T) {
	for _, tt := range []struct {
		name      string
		subscribe []string
		sent      []string
		drop      []string
		held      map[string]string
	}{
		{"a name", []string{"a", "b"}, []string{"a@1", "b@1"}, []string{"a", "z"}, map[string]string{"b": "1"}},
		{"SUB-8 a name that the wildcard may hold", []string{"*", "a"}, []string{"a@1"}, []string{"a"}, map[string]string{"a": "1"}},
		{"SUB-3 the wildcard", []string{"*", "a"}, []string{"a@1", "b@1"}, []string{"*"}, map[string]string{"a": "1"}},
		{"GLOB-5 a name that a glob holds", []string{dir + "*", dir + "a"}, []string{dir + "a@1"}, []string{dir + "a"}, map[string]string{dir + "a": "1"}},
		{"GLOB-5 a glob", []string{dir + "*", dir + "a"}, []string{dir + "a@1", dir + "b@1"}, []string{dir + "*"}, map[string]string{dir + "a": "1"}},
		{"RES-10 an alias", []string{"www", "w3", "x"}, []string{"host|www@1", "other|w3@1"}, []string{"www"}, map[string]string{"other": "1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newScript()
				c := New(serve(t, s), xdsclient.Options{})
				c.Subscribe(clusterType, tt.subscribe...)
				running(t, c)
				s.send(t, response("1", tt.sent...))
				s.next()
				c.Unsubscribe(clusterType, tt.drop...)
				expect(t, "held", tt.held, c.Versions(clusterType))
				expect(t, "request", []string{"Cluster -" + strings.Join(tt.drop, " -")}, s.next())
			})
		})
	}
}

func TestKeep(t *testing.T) {
	for keep, want := range map[xdsclient.Keep]struct{ digest, resource bool }{
		xdsclient.KeepVersions: {}, xdsclient.KeepDigests: {digest: true}, xdsclient.KeepResources: {true, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			s, rec := newScript(), new(recorder)
			c := New(serve(t, s), xdsclient.Options{Keep: keep, OnResponse: rec.record})
			c.Subscribe(clusterType)
			running(t, c)
			r := response("1", "a@1", "b@")
			s.send(t, r)
			h, ok := c.Get(clusterType, "a")
			if !ok || h.Version != "1" || (h.Digest != "") != want.digest || (h.Resource != nil) != want.resource {
				t.Errorf("keep %d: %+v, %t", keep, h, ok)
			}
			rec.next()
			// The version lies, and there is none: the digest tells.
			r.Nonce = "2"
			r.Resources[0].Resource = encoded.Any(cluster("a", 99))
			s.send(t, r)
			changes := []string{"unchanged a 1>1", "changed b"}
			if want.digest {
				changes = []string{"changed a 1>1", "unchanged b"}
			}
			expect(t, "changes", changes, rec.next())
			if _, ok := c.Get(clusterType, "z"); ok {
				t.Error("holds what was never sent")
			}
			if _, ok := c.Get(endpointType, "a"); ok {
				t.Error("holds what was never subscribed")
			}
		})
	}
}
