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
	came  int
	room  int // bytes of a request, without the node
	// list is names in order but those that are left out, nil after a change. Requests share it.
	list    []string
	leftOut []string // names for which a request has no room (RES-17)
}

// add notes that a name is wanted.
func (t *stateNames) add(name string) {
	if _, there := t.names[name]; !there {
		t.came++
		t.names[name] = t.came
	}
}

// leave fills the list with as many names as have room, and leaves out the others.
func (t *stateNames) leave(room int) {
	t.list = t.list[:0:0]
	full, alone := false, room
	for _, name := range t.inOrder() {
		n := nameSize(name)
		switch {
		case n > alone:
			t.leftOut = append(t.leftOut, name)
		case full || n > room:
			full = true
			t.leftOut = append(t.leftOut, name)
		default:
			room -= n
			t.list = append(t.list, name)
		}
	}
	slices.Sort(t.list)
}

// inOrder returns the names in the order in which they have room.
func (t *stateNames) inOrder() []string {
	return slices.SortedFunc(maps.Keys(t.names), func(a, b string) int {
		if x, y := collection(a), collection(b); x != y {
			if x {
				return -1
			}
			return 1
		}
		return cmp.Compare(t.names[a], t.names[b])
	})
}

// nameSize returns how many bytes a name takes in a request.
func nameSize(name string) int {
	if wire.IsLocator(name) {
		names, locators := wire.SplitLocators([]string{name})
		return proto.Size(&discoveryv3.DiscoveryRequest{ResourceNames: names, ResourceLocators: locators})
	}
	return protowire.SizeTag(3) + protowire.SizeBytes(len(name)) // resource_names
}
