package relay

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/metrics"
	"github.com/xdsrelay/xdsrelay/relay/directory"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

const (
	listenerType = "type.googleapis.com/envoy.config.listener.v3.Listener"
	listType     = listenerType + "Collection"
	listFoo      = "xdstp://a/envoy.config.listener.v3.ListenerCollection/foo"
)

// reader is a prefetcher between a store, of which it is told, and a hub, where it pins.
type reader struct {
	*testing.T

	hub     *hub
	ahead   *prefetcher
	store   *cache.Store
	client  *delivery.Place
	log     strings.Builder
	gather  *prometheus.Registry
	version int
}

// newReader makes one with a client that subscribes to the directory.
func newReader(t *testing.T) *reader {
	t.Helper()
	r := &reader{T: t, hub: testHub(t, false), gather: prometheus.NewRegistry()}
	m, err := metrics.New(r.gather, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := testPlan(t)
	now.authorities.Default, now.planes = "plane", r.hub.planes
	rt := &router{hub: r.hub}
	rt.now.Store(now)
	r.ahead = newPrefetcher(r.hub.cache, rt, m.References(), slog.New(slog.NewTextHandler(&r.log, nil)), true)
	r.store = r.hub.cache.Open(cache.Source{References: true})
	r.client = delivery.Join(r.store, func() {}, delivery.Form{})
	r.client.Update(&delivery.Change{TypeURL: listType, Subscribe: []cache.Name{{Spelling: listFoo, Key: listFoo}}})
	r.store.Session().Restart(wire.StreamID{}, 0)
	return r
}

// says has the control plane send a directory.
func (r *reader) says(list *listenerv3.ListenerCollection) {
	r.Helper()
	b, err := proto.Marshal(list)
	if err != nil {
		r.Fatal(err)
	}
	r.version++
	res, err := wire.NewResource(&discovery.Resource{
		Name: listFoo, Version: fmt.Sprint(r.version), Resource: &anypb.Any{TypeUrl: listType, Value: b},
	})
	if err != nil {
		r.Fatal(err)
	}
	if err := r.store.Session().Apply(wire.StreamID{}, &wire.Response{TypeURL: listType, Resources: []*wire.Resource{res}}, time.Now()); err != nil {
		r.Fatal(err)
	}
	r.ahead.take()
}

// faults is how many were counted of a kind.
func (r *reader) faults(f metrics.ReferenceFault) float64 {
	r.Helper()
	families, err := r.gather.Gather()
	if err != nil {
		r.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "xdsrelay_references_faults_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			if m.GetLabel()[0].GetValue() == string(f) {
				return m.GetCounter().GetValue()
			}
		}
	}
	r.Fatalf("no fault %q is counted", f)
	return 0
}

// pins is how many names are pinned in all sessions.
func (r *reader) pins() int {
	n := 0
	for _, s := range r.hub.all() {
		for _, t := range s.store.Stats() {
			n += t.Pins
		}
	}
	return n
}

func members(n int) *listenerv3.ListenerCollection {
	l := new(listenerv3.ListenerCollection)
	for i := range n {
		l.Entries = append(l.Entries, &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
			Locator: &xdscorev3.ResourceLocator{
				Authority: "a", ResourceType: "envoy.config.listener.v3.Listener", Id: fmt.Sprint(i),
			},
		}})
	}
	return l
}

func TestPrefetcher_LIST2_LIST3(t *testing.T) {
	in := func(name string, test func(*reader)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { test(newReader(t)) })
		})
	}
	in("LIST-2 pins hold the session, and nobody else does", func(r *reader) {
		if r.ahead.take(); len(r.hub.all()) != 0 {
			r.Fatal("a session without a pin")
		}
		r.says(members(2500)) // in more than one turn
		sessions := r.hub.all()
		if len(sessions) != 1 || r.hub.users(sessions[0]) != 1 || r.pins() != 2500 {
			r.Fatalf("%d sessions, %d pins", len(sessions), r.pins())
		}
		r.says(members(1))
		if r.hub.users(sessions[0]) != 1 || r.pins() != 1 || len(r.ahead.graph.nodes) != 2 {
			r.Errorf("%d users, %d pins, %d nodes", r.hub.users(sessions[0]), r.pins(), len(r.ahead.graph.nodes))
		}
		pass(linger + time.Second)
		if len(r.hub.all()) != 1 {
			r.Error("the session was closed in spite of its pin")
		}
		r.client.Leave()
		r.ahead.take()
		if r.hub.users(sessions[0]) != 0 || r.pins() != 0 || len(r.ahead.graph.nodes)+len(r.ahead.held) != 0 {
			r.Errorf("%d users, %d pins, %d nodes", r.hub.users(sessions[0]), r.pins(), len(r.ahead.graph.nodes))
		}
	})
	in("LIST-3 a directory that is removed lets go of its members", func(r *reader) {
		r.says(members(3))
		pass(linger) // or the session is gone as soon as it is let go of
		gone := &wire.Response{TypeURL: listType, Removed: []string{listFoo}}
		if err := r.store.Session().Apply(wire.StreamID{}, gone, time.Now()); err != nil {
			r.Fatal(err)
		}
		r.ahead.take()
		pass(time.Second)
		if s := r.hub.all()[0].store; s.Session().Wanted() != 0 {
			r.Errorf("%d are wanted still", s.Session().Wanted())
		}
	})
	in("SUB-11 a directory that nobody watches any more keeps them warm", func(r *reader) {
		r.says(members(3))
		r.client.Leave()
		r.ahead.take()
		pass(time.Second)
		if s := r.hub.all()[0].store; s.Session().Wanted() != 3 || r.pins() != 0 {
			r.Errorf("%d are wanted, %d pinned", s.Session().Wanted(), r.pins())
		}
	})
	in("OPS-4 at the end nothing is pinned", func(r *reader) {
		r.hub.close()
		r.says(members(3))
		if r.log.Len() > 0 || len(r.ahead.held) > 0 {
			r.Errorf("held %v, logged %s", r.ahead.held, r.log.String())
		}
	})
}

func TestPrefetcherHostile_LIST2_LIST4(t *testing.T) {
	t.Run("LIST-2 a directory with too many entries", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(t)
			r.says(members(directory.MaxEntries + 1))
			if r.pins() != 0 || r.faults(metrics.FaultUnreadable) != 1 {
				t.Errorf("%d pins, %v faults", r.pins(), r.faults(metrics.FaultUnreadable))
			}
			r.says(members(1))
			if r.pins() != 1 {
				t.Errorf("%d pins afterwards", r.pins())
			}
		})
	})
	t.Run("LIST-2 an entry that is no name", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(t)
			list := members(1)
			list.Entries = append(list.Entries, &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{
				Locator: &xdscorev3.ResourceLocator{Authority: "a", ResourceType: "envoy.config.listener.v3.Listener"},
			}})
			r.says(list)
			if r.pins() != 1 || r.faults(metrics.FaultUnreadable) != 1 {
				t.Errorf("%d pins, logged %s", r.pins(), r.log.String())
			}
		})
	})
	t.Run("LIST-4 log lines are few, and say how many are missing", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newReader(t)
			faulty := func(n int) *listenerv3.ListenerCollection {
				list := members(1)
				for range n {
					list.Entries = append(list.Entries, new(xdscorev3.CollectionEntry))
				}
				return list
			}
			for i := range 100 {
				r.says(faulty(1 + i))
			}
			if got := strings.Count(r.log.String(), "\n"); got != 1 {
				t.Errorf("%d lines", got)
			}
			pass(complainPause)
			for range 3 {
				r.says(faulty(7))
			}
			lines := strings.Split(strings.TrimSpace(r.log.String()), "\n")
			if len(lines) != 2 || !strings.Contains(lines[1], "not_logged_before=99") || !strings.Contains(lines[1], `faults="7 unreadable"`) {
				t.Errorf("logged %q", lines)
			}
			if got := r.faults(metrics.FaultUnreadable); got != 5050+21 || r.pins() != 1 {
				t.Errorf("%v faults, %d pins", got, r.pins())
			}
		})
	})
}

// The names that directories refer to are asked for with the type that clients ask with.
func TestPrefetcherTypes_LIST1_NAME5(t *testing.T) {
	const nested = "xdstp://a/envoy.config.listener.v3.ListenerCollection/nested"
	for _, tc := range []struct {
		name, asked, listed, want string
	}{
		{"LIST-1 a member, asked with the collection's type", listType, "xdstp://a/envoy.config.listener.v3.Listener/x", listenerType},
		{"NAME-5 a member, asked with its own", listenerType, "xdstp://a/envoy.config.listener.v3.Listener/x", listenerType},
		{"LIST-1 another directory, asked with the collection's type", listType, nested, listType},
		{"NAME-5 another directory, asked with the members'", listenerType, nested, listenerType},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newReader(t)
				n := r.ahead.graph.node(nodeKey{store: r.store, typeURL: tc.asked, name: listFoo})
				rd := &reading{prefetcher: r.ahead, node: n, memberType: listenerType}
				if rd.member(&directory.Entry{Locator: tc.listed}); len(rd.targets) != 1 || rd.targets[0].key.typeURL != tc.want {
					t.Errorf("%v", rd.targets)
				}
				if rd.member(&directory.Entry{Locator: "xdstp://a/envoy.config.cluster.v3.Cluster/x"}); len(rd.targets) != 1 {
					t.Error("NAME-5: a cluster among listeners is fetched")
				}
			})
		})
	}
}
