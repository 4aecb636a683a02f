package upstream

import (
	"slices"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// TestSUR2_SUB10_ComparisonAsksOnce: what came on the wildcard's stream and on that of the names is
// asked for once.
func TestSUR2_SUB10_ComparisonAsksOnce(t *testing.T) {
	const typeURL = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	resource := func(name string) *wire.Resource {
		r, err := wire.NewResource(&discovery.Resource{Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	var d delivered
	for stream, names := range map[wire.StreamID][]string{{}: {"a", "both"}, {Second: true}: {"both", "c"}} {
		r := &wire.Response{TypeURL: typeURL}
		for _, name := range names {
			r.Resources = append(r.Resources, resource(name))
		}
		d.restarted(stream, []wire.Subscription{{TypeURL: typeURL, Subscribe: names}})
		d.received(stream, r, 1)
	}
	q := d.question(toCompare)
	if q == nil || len(q.parts) != 1 {
		t.Fatalf("the question is %+v", q)
	}
	p := q.parts[0]
	slices.Sort(p.names)
	if want := []string{"a", "both", "c"}; !slices.Equal(p.names, want) || len(p.held) != len(want) {
		t.Errorf("it asks for %q and holds %d, want %q", p.names, len(p.held), want)
	}
}

// TestSUR2_SUR3_QuestionsAfterLosses: what a control plane of the state of the world may have lost
// is not asked for before it is answered again.
func TestSUR2_SUR3_QuestionsAfterLosses(t *testing.T) {
	type lesson struct {
		typeURL   string
		count     int
		heartbeat bool
	}
	for name, tt := range map[string]struct {
		lessons []lesson
		asked   string // "" if nothing may be
	}{
		"all is there":                        {nil, endpoints},
		"more clusters":                       {[]lesson{{clusters, 6, false}}, endpoints},
		"no clusters":                         {[]lesson{{clusters, 0, false}}, ""},
		"no endpoints":                        {[]lesson{{endpoints, 0, false}}, clusters},
		"a part of the endpoints has changed": {[]lesson{{endpoints, 1, false}}, endpoints},
		"fewer clusters, and no word about the endpoints": {[]lesson{{clusters, 1, false}}, clusters},
		"fewer clusters, then endpoints":                  {[]lesson{{clusters, 1, false}, {endpoints, 1, false}}, endpoints},
		"fewer clusters, then as many":                    {[]lesson{{clusters, 1, false}, {clusters, 1, false}}, clusters},
		"no clusters, then endpoints":                     {[]lesson{{clusters, 0, false}, {endpoints, 1, false}}, endpoints},
		"no clusters, then some":                          {[]lesson{{clusters, 0, false}, {clusters, 1, false}}, clusters},
		"nothing":                                         {[]lesson{{clusters, 0, false}, {endpoints, 0, false}}, ""},
		"a heartbeat is no list":                          {[]lesson{{clusters, 1, true}, {clusters, 5, false}}, endpoints},
	} {
		t.Run(name, func(t *testing.T) {
			d := delivered{state: true, fullState: map[string]bool{clusters: true}}
			now := time.Now()
			take := func(l lesson) {
				r := &wire.Response{State: true, TypeURL: l.typeURL}
				for range l.count {
					of := &discovery.Resource{Name: "r", Resource: &anypb.Any{TypeUrl: l.typeURL}}
					if l.heartbeat {
						of.Resource, of.Ttl = nil, durationpb.New(time.Minute)
					}
					res, err := wire.NewResource(of)
					if err != nil {
						t.Fatal(err)
					}
					r.Resources = append(r.Resources, res)
				}
				bytes := 1000 // the smallest is asked for
				if l.typeURL == endpoints {
					bytes = 100
				}
				d.receivedState(wire.StreamID{}, r, bytes, now)
			}
			d.listed(wire.StreamID{}, clusters, nil, true, now)
			d.listed(wire.StreamID{}, endpoints, []string{"x", "y"}, true, now)
			take(lesson{clusters, 5, false})
			take(lesson{endpoints, 2, false})
			for _, l := range tt.lessons {
				take(l)
			}
			for _, p := range []purpose{toHear, toFind} {
				asked := ""
				if q := d.question(p); q != nil {
					asked = q.parts[0].typeURL
				}
				if asked != tt.asked {
					t.Errorf("asks for %q, want %q", asked, tt.asked)
				}
			}
		})
	}
}

// TestSUR2_SUR3_QuestionsAfterUnsubscriptions: a list that is shorter since less is asked for has
// lost nothing.
func TestSUR2_SUR3_QuestionsAfterUnsubscriptions(t *testing.T) {
	d := delivered{state: true, fullState: map[string]bool{clusters: true}}
	now := time.Now()
	take := func(typeURL string, names ...string) {
		r := &wire.Response{State: true, TypeURL: typeURL}
		for _, name := range names {
			res, err := wire.NewResource(&discovery.Resource{Name: name, Resource: &anypb.Any{TypeUrl: typeURL}})
			if err != nil {
				t.Fatal(err)
			}
			r.Resources = append(r.Resources, res)
		}
		d.receivedState(wire.StreamID{}, r, len(names), now)
	}
	d.listed(wire.StreamID{}, clusters, []string{"x", "y"}, true, now)
	d.listed(wire.StreamID{}, endpoints, []string{"x"}, true, now)
	take(clusters, "x", "y")
	take(endpoints, "x")
	d.listed(wire.StreamID{}, clusters, []string{"x"}, false, now)
	now = now.Add(trusted)
	take(clusters, "x")
	for key, of := range d.types {
		if !of.askable() {
			t.Errorf("%s may not be asked for", key.typeURL)
		}
	}
}

// TestSUR2_RES7_QuestionsThatAreNotAnswered: what a server did not answer when it was asked for it is not what it is
// asked for next, as long as there is anything else. It is again once it was answered.
func TestSUR2_RES7_QuestionsThatAreNotAnswered(t *testing.T) {
	stream := func(typeURL string) wire.StreamID { return wire.StreamID{TypeURL: typeURL} }
	asks := func(t *testing.T, d *delivered, typeURL string) *question {
		t.Helper()
		q := d.question(toHear)
		if q == nil || q.parts[0].typeURL != typeURL {
			t.Fatalf("asks %+v, want %s", q, typeURL)
		}
		return q
	}
	t.Run("polls", func(t *testing.T) {
		d := delivered{state: true, fullState: map[string]bool{clusters: true, listeners: true}}
		d.polled(stream(listeners), []string{"l"}, 1, 10)
		d.polled(stream(clusters), nil, 1, 20)
		d.unanswered(asks(t, &d, listeners))
		d.unanswered(asks(t, &d, clusters))
		d.polled(stream(clusters), nil, 1, 20)
		asks(t, &d, clusters)
		d.polled(stream(listeners), []string{"l"}, 1, 10)
		asks(t, &d, listeners)
		d.polled(stream(listeners), []string{"l"}, 0, 10) // there is nothing any more, and the next poll may be held
		d.unanswered(asks(t, &d, clusters))
		asks(t, &d, clusters) // there is nothing else
	})
	t.Run("state of the world", func(t *testing.T) {
		d := delivered{state: true, fullState: map[string]bool{clusters: true, listeners: true}}
		take := func(typeURL string, bytes int) {
			res, err := wire.NewResource(&discovery.Resource{Name: "x", Resource: &anypb.Any{TypeUrl: typeURL}})
			if err != nil {
				t.Fatal(err)
			}
			d.receivedState(stream(typeURL), &wire.Response{State: true, TypeURL: typeURL, Resources: []*wire.Resource{res}}, bytes, time.Now())
		}
		d.listed(stream(listeners), listeners, []string{"x"}, true, time.Now())
		d.listed(stream(clusters), clusters, nil, true, time.Now())
		take(listeners, 10)
		take(clusters, 20)
		d.unanswered(asks(t, &d, listeners))
		asks(t, &d, clusters)
		take(listeners, 10)
		asks(t, &d, listeners)
	})
	t.Run("incremental", func(t *testing.T) {
		var d delivered
		resource := func(typeURL, name string) *wire.Resource {
			r, err := wire.NewResource(&discovery.Resource{Name: name, Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		sub := wire.Subscription{TypeURL: listeners, Subscribe: []string{"x", "y"}}
		d.restarted(stream(listeners), []wire.Subscription{sub})
		d.received(stream(listeners), &wire.Response{TypeURL: listeners, Resources: []*wire.Resource{resource(listeners, "x"), resource(listeners, "y")}}, 1)
		first := asks(t, &d, listeners)
		d.unanswered(first)
		second := asks(t, &d, listeners)
		if slices.Equal(first.parts[0].names, second.parts[0].names) {
			t.Errorf("asks for %q again", first.parts[0].names)
		}
		d.unanswered(second)
		if third := asks(t, &d, listeners); !slices.Equal(third.parts[0].names, second.parts[0].names) {
			t.Errorf("asks for %q, and only %q is left", third.parts[0].names, second.parts[0].names)
		}
		d.received(wire.StreamID{TypeURL: listeners, Second: true}, &wire.Response{TypeURL: listeners, Resources: []*wire.Resource{resource(listeners, second.parts[0].names[0])}}, 1)
		d.unanswered(asks(t, &d, listeners)) // which came on two streams, and there is nothing else
		asks(t, &d, listeners)
		sub.Versions = map[string]string{"x": "1", "y": "1"}
		d.restarted(stream(listeners), []wire.Subscription{sub})
		if n := len(d.question(toCompare).parts[0].names); n != 2 {
			t.Errorf("%d names can be asked for when both were presented", n)
		}
	})
}
