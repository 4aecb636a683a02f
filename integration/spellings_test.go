package integration

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"google.golang.org/protobuf/proto"
)

const listenerCollectionType = "type.googleapis.com/envoy.config.listener.v3.ListenerCollection"

// spellings are ways to write one directory and the context parameters of what is
// in it; the first one is canonical. %s is the type, <> the last segment.
var spellings = []string{
	"xdstp://a/%s/d%%2Fr/<>?k=v&l=m%%26n&z=%%C3%%A9",
	"xdstp://a/%s/d%%2Fr/<>?z=%%C3%%A9&l=m%%26n&k=v", // parameters in another order
	"xdstp://a/%s/d%%2fr/<>?k=v&l=m%%26n&z=%%c3%%a9", // hexadecimal digits in lower case
	"xdstp://a/%s/%%64%%2F%%72/<>?%%6B=%%76&l=%%6D%%26n&z=%%C3%%A9",
	"xdstp://a/%s/d%%2Fr/<>?k=v&l=m%%26n&z=é",
	"XDSTP://%%61/%s/d%%2Fr/<>?z=é&k=v&l=m%%26n",
}

// spelled gives the ways to write one name, by its type and its last segment.
func spelled(typeURL, segment string) []string {
	all := make([]string, len(spellings))
	for i, s := range spellings {
		_, typ, _ := strings.Cut(typeURL, "/")
		all[i] = strings.Replace(fmt.Sprintf(s, typ), "<>", segment, 1)
	}
	return all
}

// TestSpellings has a client for every spelling of a name, a glob and a list
// collection: upstream there is one subscription, and each client is told of its own
// name, be it sent, changed, removed, or not there at all.
func TestSpellings_NAME3_NAME4_SUB10_GLOB1_GLOB3_LIST1_RES5(t *testing.T) {
	kinds := []struct {
		name, typeURL, subscribe string
		members                  []string // last segments of what comes
	}{
		{"names", endpointType, "x", []string{"x"}},
		{"full-state names", clusterType, "x", []string{"x"}},
		{"globs", listenerType, "*", []string{"x", "y"}},
		{"lists", listenerCollectionType, "x", []string{"x"}},
	}
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		for _, k := range kinds {
			t.Run(v.name+" "+k.name, func(t *testing.T) {
				s := &spellingTest{plane: newPlane(t), typeURL: k.typeURL, members: k.members}
				s.plane.plain = true
				for _, m := range k.members {
					s.set(m, 1)
				}
				relay := startRelay(t, nil, s.plane.addr)
				for i, name := range spelled(k.typeURL, k.subscribe) {
					c := startNoted(t, v, relay, fmt.Sprint("client-", i))
					c.Subscribe(k.typeURL, name)
					s.clients = append(s.clients, c)
				}
				s.everybodyHolds(t, 1)
				for _, m := range k.members {
					s.set(m, 2)
				}
				s.everybodyHolds(t, 2)
				if !v.sotw || fullState[k.typeURL] {
					s.plane.unset(k.typeURL, spelled(k.typeURL, k.members[0])[0])
					s.everybodyLoses(t, k.members[0])
				}
				s.oneSubscription(t, spelled(k.typeURL, k.subscribe)[0])
				relay.consistent(t)
			})
		}
	}
}

// TestSpellingsOfNothing_NAME4_RES6_GLOB4 has incremental clients ask for what does
// not exist: a name, and a glob without members.
func TestSpellingsOfNothing_NAME4_RES6_GLOB4(t *testing.T) {
	for _, segment := range []string{"x", "*"} {
		t.Run(segment, func(t *testing.T) {
			p := newPlane(t)
			relay := startRelay(t, nil, p.addr)
			for i, name := range spelled(endpointType, segment) {
				c := startNoted(t, deltaADS, relay, fmt.Sprint("client-", i))
				c.Subscribe(endpointType, name)
				c.await(t, "that it does not exist", func() bool { return c.seen() > 0 })
				if got := c.told(); !slices.Equal(got, []string{"absent " + name}) {
					t.Errorf("told %q, want that %q is absent", got, name)
				}
			}
			relay.consistent(t)
		})
	}
}

// spellingTest is one kind of name, and the clients that ask for it: one for each
// spelling.
type spellingTest struct {
	plane   *testPlane
	typeURL string
	members []string
	clients []*noted
}

// set puts a resource into the control plane, under its canonical name.
func (s *spellingTest) set(segment string, version int) {
	name := spelled(s.typeURL, segment)[0]
	s.plane.put(s.typeURL, name, []byte(s.payload(name, version)))
}

func (s *spellingTest) payload(name string, version int) string {
	if s.typeURL != listenerCollectionType {
		return string(contents(s.typeURL, name, fmt.Sprint("v", version), ""))
	}
	return directoryOf(fmt.Sprint("/entry-", version))
}

// directoryOf is a ListenerCollection with an inline entry for each name.
func directoryOf(entries ...string) string {
	d := new(listenerv3.ListenerCollection)
	for _, name := range entries {
		d.Entries = append(d.Entries, &corev3.CollectionEntry{ResourceSpecifier: &corev3.CollectionEntry_InlineEntry_{
			InlineEntry: &corev3.CollectionEntry_InlineEntry{Name: name, Version: "1"},
		}})
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(d)
	if err != nil {
		panic(err) // made here, from valid parts
	}
	return string(b)
}

// everybodyHolds waits until each client holds everything, in this version and under
// the names that it would use itself.
func (s *spellingTest) everybodyHolds(t *testing.T, version int) {
	t.Helper()
	for i, c := range s.clients {
		want := make(map[string]string)
		for _, m := range s.members {
			names := spelled(s.typeURL, m)
			want[names[i]] = s.payload(names[0], version)
		}
		c.await(t, fmt.Sprintf("version %d of %q", version, slices.Sorted(maps.Keys(want))), func() bool {
			for name, payload := range want {
				if c.content(s.typeURL, name) != payload {
					return false
				}
			}
			return true
		})
		if n := c.Len(s.typeURL); n != len(want) {
			t.Errorf("%d resources are held, want %d: %s", n, len(want), c.story())
		}
	}
}

// everybodyLoses waits until each client was told, by its own name for it, that a
// resource is gone.
func (s *spellingTest) everybodyLoses(t *testing.T, segment string) {
	t.Helper()
	for i, c := range s.clients {
		name := spelled(s.typeURL, segment)[i]
		c.await(t, fmt.Sprintf("that %q is gone", name), func() bool {
			last, _ := c.last(name) // noted before the response is applied
			return last.kind.String() == "removed" && c.content(s.typeURL, name) == ""
		})
		if n := c.Len(s.typeURL); n != len(s.members)-1 {
			t.Errorf("%d resources are held, want %d: %s", n, len(s.members)-1, c.story())
		}
	}
}

// oneSubscription checks what the control plane was asked.
func (s *spellingTest) oneSubscription(t *testing.T, canonical string) {
	t.Helper()
	var asked []string
	waitFor(t, "one stream upstream", func() bool { // polls for what has gone may have it begin anew
		streams := s.plane.streamsNow()
		if len(streams) != 1 {
			return false
		}
		asked = nil
		for _, r := range streams[0].requests {
			asked = append(asked, r.GetResourceNamesSubscribe()...)
		}
		return len(asked) > 0
	})
	if want := []string{canonical}; !slices.Equal(keysOf(asked), want) {
		t.Errorf("SUB-10: %q were asked for, want %q in any one spelling", asked, want)
	}
	s.plane.checkClient(t)
}
