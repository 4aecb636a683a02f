package relay

import (
	"crypto/sha256"
	"slices"
	"sync"
	"weak"

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
// extensions: they would take many times what all else does that is kept for a client. What
// nobody has any more is not kept either: little that is encoded may be much in memory
// (OPS-5). The zero one is ready. It may be used from any goroutine.
type extensionLists struct {
	mu     sync.Mutex
	recent []extensionList // guarded by mu; those used last come first
}

type extensionList struct {
	digest [sha256.Size]byte
	list   weak.Pointer[extensions]
}

// extensions is a list that clients share, which is immutable. It can be found as long as
// one of them holds on to it.
type extensions []*corev3.Extension

// share gives a node the list of an earlier one, if that is the same. The lists that nodes
// come with must not be changed any more. The node's owner is to keep what it returns.
func (l *extensionLists) share(node *corev3.Node) *extensions {
	if len(node.GetExtensions()) == 0 {
		return nil
	}
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(&corev3.Node{Extensions: node.GetExtensions()})
	if err != nil || len(b) > maxExtensionsSize {
		return nil // nobody else will have it
	}
	list := l.same(sha256.Sum256(b), node.GetExtensions())
	node.Extensions = *list
	return list
}

// same finds a list, or remembers it.
func (l *extensionLists) same(digest [sha256.Size]byte, list extensions) *extensions {
	l.mu.Lock()
	defer l.mu.Unlock()
	var known *extensions
	at := slices.IndexFunc(l.recent, func(o extensionList) bool { return o.digest == digest })
	switch {
	case at >= 0:
		known = l.recent[at].list.Value()
		l.recent = slices.Delete(l.recent, at, at+1)
	case len(l.recent) == maxExtensions:
		l.recent = slices.Delete(l.recent, maxExtensions-1, maxExtensions)
	}
	if known == nil {
		known = &list
	}
	l.recent = slices.Insert(l.recent, 0, extensionList{digest, weak.Make(known)})
	return known
}
