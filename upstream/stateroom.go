package upstream

import (
	"cmp"
	"maps"
	"slices"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// answerRoom is left free in a request that leaves names out, for version, nonce and the reason of a
// NACK: later answers with the same names may have longer ones.
const answerRoom = 8 << 10

// stateNames are the names that are wanted of a type.
type stateNames struct {
	names map[string]int // with the order in which they came
	gone  map[string]int // that were unsubscribed in this round: to be asked for anew is to keep its place
	came  int
	room  int // bytes of a request, without the node
	// list is names in order but those that are left out, nil after a change. Requests share it.
	list    []string
	leftOut []string // names for which a request has no room (RES-17)
}

// add notes that a name is wanted.
func (t *stateNames) add(name string) {
	if _, there := t.names[name]; there {
		return
	}
	place, was := t.gone[name]
	if !was && name != wildcard { // that comes before all names
		t.came++
		place = t.came
	}
	t.names[name] = place
}

// remove notes that a name is not wanted.
func (t *stateNames) remove(name string) {
	place, there := t.names[name]
	if !there {
		return
	}
	delete(t.names, name)
	if t.gone == nil {
		t.gone = make(map[string]int)
	}
	t.gone[name] = place
}

// leave fills the list with as many names as have room, and leaves out the others. Names that were said last,
// in order, may take the spare room too: it is for answers.
func (t *stateNames) leave(room, spare int, said []string) {
	t.list = t.list[:0:0]
	full, used := false, 0
	for _, name := range t.inOrder() {
		n, most := nameSize(name), room-spare
		_, before := slices.BinarySearch(said, name)
		if before {
			most = room
		}
		switch {
		case n > room-spare && !before: // it keeps nobody out
			t.leftOut = append(t.leftOut, name)
		case used+n > most, full && !before:
			full = true
			t.leftOut = append(t.leftOut, name)
		default:
			used += n
			t.list = append(t.list, name)
		}
	}
	slices.Sort(t.list)
}

// inOrder returns the names in the order in which they have room: "*", and then as they came.
func (t *stateNames) inOrder() []string {
	return slices.SortedFunc(maps.Keys(t.names), func(a, b string) int { return cmp.Compare(t.names[a], t.names[b]) })
}

// nameSize returns how many bytes a name takes in a request.
func nameSize(name string) int {
	if wire.IsLocator(name) {
		names, locators := wire.SplitLocators([]string{name})
		return proto.Size(&discoveryv3.DiscoveryRequest{ResourceNames: names, ResourceLocators: locators})
	}
	return protowire.SizeTag(3) + protowire.SizeBytes(len(name)) // resource_names
}
