package relay

import (
	"crypto/sha256"
	"slices"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"
)

const (
	// maxExtensions is how many lists of extensions are remembered: there are as many as
	// builds of the clients in a fleet.
	maxExtensions = 32
	// maxExtensionsSize is how large one may be, encoded. Envoy's has some 25 KiB.
	maxExtensionsSize = 128 << 10
)

// extensionLists has clients share the lists of the extensions in their nodes. A stream
// keeps its node, and all of Envoy's that are of one build list the same hundreds of
// extensions: they would take many times what all else does that is kept for a client. The
// zero one is ready. It may be used from any goroutine.
type extensionLists struct {
	mu     sync.Mutex
	recent []extensionList // guarded by mu; those used last come first
}

type extensionList struct {
	digest [sha256.Size]byte
	list   []*corev3.Extension // immutable
}

// share gives a node the list of an earlier one, if that is the same. The lists that nodes
// come with must not be changed any more.
func (l *extensionLists) share(node *corev3.Node) {
	if len(node.GetExtensions()) == 0 {
		return
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&corev3.Node{Extensions: node.GetExtensions()})
	if err != nil || len(b) > maxExtensionsSize {
		return // nobody else will have it
	}
	node.Extensions = l.same(extensionList{sha256.Sum256(b), node.GetExtensions()})
}

// same finds a list, or remembers it.
func (l *extensionLists) same(e extensionList) []*corev3.Extension {
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.recent, func(o extensionList) bool { return o.digest == e.digest })
	switch {
	case at >= 0:
		e = l.recent[at]
		l.recent = slices.Delete(l.recent, at, at+1)
	case len(l.recent) == maxExtensions:
		l.recent = slices.Delete(l.recent, maxExtensions-1, maxExtensions)
	}
	l.recent = slices.Insert(l.recent, 0, e)
	return e.list
}
