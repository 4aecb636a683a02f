package cache

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// streams are those of some tables.
func (k *kept) streams(tables ...*Table) (all []wire.StreamID) {
	for _, t := range tables {
		all = append(all, t.upstream.stream)
	}
	return all
}

// A server that refuses a second stream has names and the wildcard of a type on one, until it takes a second one
// again (SUB-14).
func TestOneStream_SUB14(t *testing.T) {
	k := newKeptOf(t, Source{Shared: map[string]bool{"shared": true}})
	k.store.mu.Lock()
	var stars, names []*Table
	for _, typeURL := range []string{cds, xds.EndpointType, xds.RouteType, "shared"} {
		star, named := k.store.Table(typeURL, WholeType), k.store.Table(typeURL, ByName)
		star.Collection(Wildcard)
		named.want(named.Entry("a"))
		stars, names = append(stars, star), append(names, named)
	}
	only := k.store.Table(xds.SecretType, ByName)
	only.want(only.Entry("a"))
	k.store.mu.Unlock()
	first, second := wire.StreamID{}, wire.StreamID{Second: true}
	for _, refused := range []bool{false, true, false} {
		k.store.Session().OneStream(first, refused)
		for _, id := range append(k.streams(stars...), k.streams(only, names[3])...) {
			if id != first {
				t.Errorf("a second stream is refused: %t, and %v carries a wildcard, or a type without one, or one that shares", refused, id)
			}
		}
		want := second
		if refused {
			want = first
		}
		for _, id := range k.streams(names[:3]...) {
			if id != want {
				t.Errorf("a second stream is refused: %t, and %v carries names", refused, id)
			}
		}
	}
}

// Where each type has its own streams, one type may have two, and another one that is refused a second (SUB-14).
func TestOneStreamOfAType_SUB14(t *testing.T) {
	k := newKeptOf(t, Source{PerType: true})
	k.store.mu.Lock()
	var names []*Table
	for _, typeURL := range []string{cds, xds.EndpointType} {
		named := k.store.Table(typeURL, ByName)
		k.store.Table(typeURL, WholeType).Collection(Wildcard)
		named.want(named.Entry("a"))
		names = append(names, named)
	}
	k.store.mu.Unlock()
	k.store.Session().OneStream(wire.StreamID{TypeURL: cds}, true)
	if ids := k.streams(names...); ids[0] != (wire.StreamID{TypeURL: cds}) || ids[1] != (wire.StreamID{TypeURL: xds.EndpointType, Second: true}) {
		t.Errorf("names are on %v", ids)
	}
}
