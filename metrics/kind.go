package metrics

import (
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// kind is a resource type as the label "type" shows it: an index of shortNames.
type kind int

// shortNames are the label's values. Unknown types are the last one, other, so that no client can add a series.
var shortNames = func() (names []string) {
	for i := range xds.Types() {
		if label := xds.Types()[i].Label; !slices.Contains(names, label) {
			names = append(names, label)
		}
	}
	return append(names, "other")
}()

// kindsByURL is read only.
var kindsByURL = func() map[string]kind {
	kinds := make(map[string]kind)
	for i := range xds.Types() {
		t := &xds.Types()[i]
		k := kind(slices.Index(shortNames, t.Label))
		kinds[t.URL] = k
		if t.V2 != "" {
			kinds[t.V2URL()] = k
		}
	}
	return kinds
}()

// kindOf is the kind of a type URL. A list collection ("…ListenerCollection") is of
// its members' kind.
func kindOf(typeURL string) kind {
	if k, ok := kindsByURL[typeURL]; ok {
		return k
	}
	if members, ok := strings.CutSuffix(typeURL, "Collection"); ok {
		if k, ok := kindsByURL[members]; ok {
			return k
		}
	}
	return kind(len(shortNames) - 1)
}
