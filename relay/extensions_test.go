package relay

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// build is the node of a client of one build.
func build(version string) *corev3.Node {
	return &corev3.Node{Id: "n", Extensions: []*corev3.Extension{
		{Name: "a", Category: "filters", TypeUrls: []string{version}}, {Name: "b", TypeUrls: []string{"x", "y"}},
	}}
}

func TestExtensionsAreShared(t *testing.T) {
	var l extensionLists
	var kept []*extensions
	share := func(n *corev3.Node) { kept = append(kept, l.share(n)) }
	shared := func(a, b *corev3.Node) bool { return a.GetExtensions()[0] == b.GetExtensions()[0] }
	first, second, other := build("1"), build("1"), build("2")
	for _, n := range []*corev3.Node{nil, {}, first, second, other} {
		want := proto.Clone(n)
		if share(n); !proto.Equal(n, want) {
			t.Errorf("the node is %v, was %v", n, want)
		}
	}
	if !shared(first, second) {
		t.Error("equal lists are not shared")
	}
	if shared(first, other) {
		t.Error("different lists are shared")
	}

	for i := range 2 * maxExtensions {
		share(build(fmt.Sprint("rare ", i)))
		again := build("1")
		if share(again); !shared(first, again) {
			t.Fatalf("the list in use is forgotten after %d others", i)
		}
	}
	if len(l.recent) != maxExtensions {
		t.Errorf("%d lists are remembered, want %d", len(l.recent), maxExtensions)
	}
	again := build("2")
	if share(again); shared(other, again) {
		t.Error("a list that was not used for long is remembered")
	}

	large, same := build(strings.Repeat("x", maxExtensionsSize)), build(strings.Repeat("x", maxExtensionsSize))
	share(large)
	if share(same); shared(large, same) {
		t.Error("a list is remembered that is too large")
	}
	runtime.KeepAlive(kept)
}

// Nothing is left of a list when the last client has gone that has it.
func TestExtensions_OPS5_AreForgotten(t *testing.T) {
	r := newRuledRouter(t)
	r.reload(t, rules.Share)
	a, b := r.join(t, build("1")), r.join(t, build("1"))
	list := r.extensions.recent[0].list
	a.Close()
	if runtime.GC(); list.Value() == nil {
		t.Error("the list is forgotten that a client has")
	}
	b.Close()
	if runtime.GC(); list.Value() != nil {
		t.Error("the list is kept that nobody has")
	}
	c := r.join(t, build("1"))
	if again := r.extensions.recent[0].list.Value(); len(r.extensions.recent) != 1 || again != c.shared {
		t.Error("the list is not remembered anew")
	}
	c.Close()
}

// Streams share what is equal in their nodes, and each has its own control plane's view.
func TestOpenSharesExtensions(t *testing.T) {
	r := newRuledRouter(t)
	r.reload(t, rules.Share)
	a, b := r.join(t, build("1")), r.join(t, build("1"))
	if a.node.GetExtensions()[0] != b.node.GetExtensions()[0] {
		t.Error("two streams of one build keep a list of extensions each")
	}
	a.Close()
	b.Close()
}
