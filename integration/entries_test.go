package integration

import (
	"slices"
	"testing"

	xdscorev3 "github.com/cncf/xds/go/xds/core/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// directory is a ListenerCollection.
func directory(entries ...*xdscorev3.CollectionEntry) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&listenerv3.ListenerCollection{Entries: entries})
	if err != nil {
		panic(err) // made here, from valid parts
	}
	return b
}

// entryAt is an entry of a directory that says where its member is.
func entryAt(locator *xdscorev3.ResourceLocator) *xdscorev3.CollectionEntry {
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_Locator{Locator: locator}}
}

// entryOf is an entry of a directory that holds its member, with a content that its
// version tells.
func entryOf(name, version string) *xdscorev3.CollectionEntry {
	return &xdscorev3.CollectionEntry{ResourceSpecifier: &xdscorev3.CollectionEntry_InlineEntry_{
		InlineEntry: &xdscorev3.CollectionEntry_InlineEntry{
			Name: name, Version: version,
			Resource: &anypb.Any{TypeUrl: listenerType, Value: contents(listenerType, name, version, "")},
		},
	}}
}

// TestInlineEntries asks for inline entries by name while the directory that holds
// them changes: each comes in the version that the directory gives it, when that
// changes. The control plane is asked for the directory, once.
func TestInlineEntries_LIST4_NAME6_NAME8(t *testing.T) {
	for _, v := range []variant{deltaADS, delta, sotwADS, sotw, restPoll} {
		t.Run(v.name, func(t *testing.T) {
			p := newPlane(t)
			p.plain = true
			name := nameAt("a", listenerCollectionType, "all")
			set := func(entries ...*xdscorev3.CollectionEntry) {
				p.put(listenerCollectionType, name, directory(entries...))
			}
			set(entryOf("one", "1"), entryOf("two", "1"), entryOf("", "1"))
			relay := startRelay(t, nil, p.addr)
			c := startNoted(t, v, relay, "client")
			one, two := name+"#entry=one", name+"#entry=two"
			await := func(what, entry, version string) {
				t.Helper()
				id := entry[len(entry)-len("one"):]
				c.awaitContent(t, what, listenerType, entry, string(contents(listenerType, id, version, "")))
				if last, _ := c.last(entry); last.version != version {
					t.Errorf("%s: the entry has version %q, want its own, %s", what, last.version, version)
				}
			}
			c.Subscribe(listenerType, one, two)
			await("an entry", one, "1")
			await("another", two, "1")

			before := c.seen()
			set(entryOf("two", "1"), entryOf("one", "2"))
			await("a change of one", one, "2")
			if got := c.news(before); !slices.Equal(got, []string{one}) {
				t.Errorf("the client was told of %q, want the entry that changed", got)
			}
			set(entryOf("one", "2"))
			c.await(t, "two is gone", func() bool { return c.content(listenerType, two) == "" })
			set(entryOf("one", "2"), entryOf("two", "3"))
			await("two is back", two, "3")

			streams := p.streamsNow()
			if len(streams) != 1 || streams[0].subscribed[listenerCollectionType][name] != 1 || len(streams[0].subs[listenerType]) > 0 {
				t.Errorf("NAME-8: the control plane has %d streams, want one that asks for the directory and nothing else", len(streams))
			}
			p.checkClient(t)
			relay.consistent(t)
		})
	}
}

// news are the names of which the client was told something new since then.
func (n *noted) news(since int) []string {
	var names []string
	for _, c := range n.since(since) {
		if c.kind != xdsclient.Unchanged {
			names = append(names, c.name)
		}
	}
	return names
}
