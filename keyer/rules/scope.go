package rules

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"strconv"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/keyer"
)

const (
	shared   = "shared"
	isolated = "isolated"
)

// sharedScope is one scope for all, but for the features that the upstream node
// keeps of its clients': what a server does differently for them must not reach
// clients without them (AGG-3).
func sharedScope(node *corev3.Node) string {
	features := passedFeatures(node)
	if len(features) == 0 {
		return shared
	}
	h := newScopeHash()
	h.list(features)
	return shared + "-" + h.sum()
}

// isolatedScope is a scope for clients of this node and this identity: all
// that a server could tell them apart by, fields that this build does not know
// included (AGG-2). The remote address is left out, or a client that reconnects
// would find its scope gone. Builds may differ in the scope of a node, since
// they may encode it differently.
//
// The node cannot be encoded if a string in it is not UTF-8, which no node off
// the wire is.
func isolatedScope(node *corev3.Node, peer keyer.Peer) (string, error) {
	encoded, err := proto.MarshalOptions{Deterministic: true}.Marshal(node)
	if err != nil {
		return "", fmt.Errorf("encoding the node: %w", err)
	}
	h := newScopeHash()
	h.bytes(encoded)
	h.list([]string{peer.SPIFFE, peer.Subject})
	for _, names := range [][]string{peer.DNS, peer.URIs, peer.Emails, peer.IPs} {
		// A renewed certificate may list the same names in another order.
		h.list(sorted(names))
	}
	if t := peer.Token; t != nil {
		h.list([]string{"token", t.Issuer, t.Subject})
	}
	if peer.User != nil {
		h.list([]string{"user", strconv.FormatUint(uint64(peer.User.UID), 10), strconv.FormatUint(uint64(peer.User.GID), 10)})
	}
	return isolated + "-" + h.sum(), nil
}

// scopeHash hashes the parts of a scope. Every part is preceded by its length
// and every list by its count, so that no two sequences of parts look alike.
type scopeHash struct{ hash.Hash }

func newScopeHash() scopeHash { return scopeHash{sha256.New()} }

func (h scopeHash) bytes(part []byte) {
	h.number(len(part))
	h.Write(part)
}

func (h scopeHash) list(parts []string) {
	h.number(len(parts))
	for _, part := range parts {
		h.bytes([]byte(part))
	}
}

func (h scopeHash) number(n int) {
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// sum gives the first half of the digest, to keep scopes readable in logs:
// meeting another client's scope on purpose still takes some 2^128 attempts.
func (h scopeHash) sum() string {
	return hex.EncodeToString(h.Sum(nil)[:sha256.Size/2])
}
