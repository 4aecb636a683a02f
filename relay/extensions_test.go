package relay

import (
	"fmt"
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
	shared := func(a, b *corev3.Node) bool { return a.GetExtensions()[0] == b.GetExtensions()[0] }
	first, second, other := build("1"), build("1"), build("2")
	for _, n := range []*corev3.Node{nil, {}, first, second, other} {
		want := proto.Clone(n)
		if l.share(n); !proto.Equal(n, want) {
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
		l.share(build(fmt.Sprint("rare ", i)))
		again := build("1")
		if l.share(again); !shared(first, again) {
			t.Fatalf("the list in use is forgotten after %d others", i)
		}
	}
	if len(l.recent) != maxExtensions {
		t.Errorf("%d lists are remembered, want %d", len(l.recent), maxExtensions)
	}
	again := build("2")
	if l.share(again); shared(other, again) {
		t.Error("a list that was not used for long is remembered")
	}

	large, same := build(strings.Repeat("x", maxExtensionsSize)), build(strings.Repeat("x", maxExtensionsSize))
	l.share(large)
	if l.share(same); shared(large, same) {
		t.Error("a list is remembered that is too large")
	}
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
