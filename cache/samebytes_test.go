package cache

import (
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// lies says where the bytes of a store's resource are.
func lies(t *testing.T, s *Store, name string) *byte {
	t.Helper()
	e := s.Table(cds, WholeType).entries[name]
	if e == nil || e.res == nil {
		t.Fatalf("%q is not there", name)
	}
	return unsafe.SliceData(e.res.Raw())
}

// sent makes a resource as a response brings it, in bytes of its own.
func sent(t *testing.T, name, version string) *wire.Resource {
	t.Helper()
	r, err := wire.NewResource(&discoveryv3.Resource{
		Name: name, Version: version,
		Resource: &anypb.Any{TypeUrl: cds, Value: []byte("\x0a\x01" + name + "\x12\xac\x02" + strings.Repeat("x", 300))},
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Where there are many stores, what a control plane sends to each of them is in memory once, whatever
// form it comes in, and as long as anybody has it.
func TestStoresShareBytes_LIM3(t *testing.T) {
	delta := func(s *Store, version string) error {
		return s.Session().Apply(wire.StreamID{}, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{sent(t, "a", version)}}, time.Now())
	}
	state := func(s *Store, version string) error {
		return s.Session().Apply(wire.StreamID{}, &wire.Response{State: true, TypeURL: cds, Version: version, Resources: []*wire.Resource{sent(t, "a", version)}}, time.Now())
	}
	restored := func(s *Store, version string) error {
		s.Snapshots().Restore(&Image{Tables: []TableImage{{
			TypeURL: cds, Kind: WholeType, Collections: []string{Wildcard}, Resources: []ResourceImage{{Resource: sent(t, "a", version)}},
		}}}, time.Now())
		return nil
	}
	for name, give := range map[string]func(*Store, string) error{"delta": delta, "state": state, "restored": restored} {
		t.Run(name, func(t *testing.T) {
			c := New(Limits{}, nil)
			var stores []*Store
			for range sharesFrom + 4 {
				s := c.Open(Source{Quiet: time.Second, State: name == "state", FullState: map[string]bool{cds: true}})
				stores = append(stores, s)
				(&kept{t, s}).listener(Needs(0)).follow(Wildcard)
				if err := give(s, "1"); err != nil {
					t.Fatal(err)
				}
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
			}
			places := make(map[*byte]int)
			for _, s := range stores {
				places[lies(t, s, "a")]++
			}
			if len(places) != sharesFrom {
				t.Errorf("LIM-3: the resource is in memory %d times for %d stores, want once for those that came when there were %d", len(places), len(stores), sharesFrom)
			}
			for _, s := range stores[:len(stores)-1] {
				s.Close()
			}
			last := stores[len(stores)-1]
			runtime.GC()
			if e := last.Table(cds, WholeType).entries["a"]; e.res.Name != "a" || e.res.Version != "1" || e.key != "a" {
				t.Errorf("after the others are gone it is %q %q %q", e.res.Name, e.res.Version, e.key)
			}
			if got := c.stores.Load(); got != 1 {
				t.Errorf("%d stores are open, want 1", got)
			}
		})
	}
}

// A source may give one resource to many stores, on many goroutines: nothing of it changes.
func TestStoresShareOneResource_LIM3(t *testing.T) {
	c := New(Limits{}, nil)
	for range sharesFrom {
		c.Open(Source{})
	}
	first := c.share([]*wire.Resource{sent(t, "a", "1")})
	one := []*wire.Resource{sent(t, "a", "1"), sent(t, "b", "1")}
	before := *one[0]
	shared := c.share(one)
	if first != nil || len(shared) != 2 || shared[0] == one[0] || shared[1] != one[1] {
		t.Fatalf("shared are %v, then %v", first, shared)
	}
	if one[0].Name != before.Name || unsafe.StringData(one[0].Name) != unsafe.StringData(before.Name) {
		t.Error("the resource itself changed")
	}
}
