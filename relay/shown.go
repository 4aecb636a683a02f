package relay

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"google.golang.org/protobuf/proto"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/keyer/rules"
)

// shown is what a session's control plane is shown (AGG-3).
type shown struct {
	client *corev3.Node // of the client for which the session begins; nil where none plays a part
	node   func(own *corev3.Node) *corev3.Node
}

// asItself shows the relay's own node: for xdstp names, which mean the same for every client.
func asItself() shown { return shown{node: func(own *corev3.Node) *corev3.Node { return own }} }

// asDecided shows what the rules make of the clients of a scope.
func asDecided(d *rules.Decision, replica string) shown {
	kept := *d
	kept.Client, kept.Parts, kept.Failed = nil, nil, nil
	return shown{d.Client, func(own *corev3.Node) *corev3.Node { return upstreamNode(&kept, own, replica) }}
}

func upstreamNode(d *rules.Decision, own *corev3.Node, replica string) *corev3.Node {
	return rules.UpstreamNode(d, own, scopedID(own.GetId(), replica, d))
}

// enough digits of a digest tell scopes apart.
const enough = 12

// scopedID is what the relay is called in a scope: control planes keep apart by it what
// they send to each of its streams, and to other replicas.
func scopedID(id, replica string, d *rules.Decision) string {
	h := sha256.New()
	h.Write([]byte(d.Basis + "\x00" + d.Scope))
	return id + "~" + replica + "~" + hex.EncodeToString(h.Sum(nil))[:enough]
}

// forwarding is the relay's own node where clients' metadata goes upstream: what is forwarded
// is part of the scope, and so of what the node is called (AGG-3, ACC-6). key stands for the
// metadata (forwarded.key).
func forwarding(own *corev3.Node, key string) *corev3.Node {
	if key == "" {
		return own
	}
	h := hmac.New(sha256.New, unguessable())
	h.Write([]byte(key))
	node := proto.CloneOf(own)
	node.Id += "~" + hex.EncodeToString(h.Sum(nil))[:enough]
	return node
}

// unguessable has the process make its own digests of credentials: nodes are shown, and nobody
// is to find a token by trying.
var unguessable = sync.OnceValue(func() []byte {
	key := make([]byte, sha256.Size)
	_, _ = rand.Read(key) // it never fails
	return key
})

// thisReplica is what sets a relay apart from its replicas.
func thisReplica() string {
	if name, err := os.Hostname(); err == nil && name != "" {
		return name
	}
	return "relay"
}

// ownNode is the relay's own node, with what it makes of the protocol.
func ownNode(cfg *config.Config) *corev3.Node {
	node := cfg.NodeProto()
	node.ClientFeatures = features()
	return node
}

// UpstreamNode is what the control plane is shown of the clients of a scope, by the first
// of which a decision was made. The replica is open: "*" stands for it.
func UpstreamNode(cfg *config.Config, d *rules.Decision) *corev3.Node {
	return upstreamNode(d, ownNode(cfg), "*")
}
