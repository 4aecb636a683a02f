package rules

import (
	"slices"

	"cel.dev/cel-go/common/types/ref"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// Set is a list of rules, ready to be asked.
type Set struct {
	rules     []*rule
	otherwise Policy
	upstream  string
	basis     string                      // of the scope that clients share whom no rule matches
	mentions  map[string]func() *mentions // by rule, what it looks at
}

// Policy is what becomes of clients that no rule matches.
func (s *Set) Policy() Policy { return s.otherwise }

// Empty reports whether there are no rules.
func (s *Set) Empty() bool { return len(s.rules) == 0 }

// LooksAtPeer reports whether a rule looks at the peer, by its index.
func (s *Set) LooksAtPeer(i int) bool {
	r := s.rules[i]
	return r.match.looksAt(varPeer) || slices.ContainsFunc(r.scope, func(x *expression) bool { return x.looksAt(varPeer) })
}

// Subject is one client before a set of rules. What the rules make of its node and its
// identity is prepared once.
type Subject struct {
	set  *Set
	node *corev3.Node
	peer keyer.Peer

	// Filled in when first needed: a name must not cost what the whole node does.
	nodeVal, peerVal ref.Val
	alone            string             // its isolated scope
	features         *[]string          // those for load balancing
	open             map[string][]*rule // by type that is decided by name, the rules that may decide
	effort           effort             // of its names
}

func (c *Subject) passedFeatures() []string {
	if c.features == nil {
		c.features = new(passedFeatures(c.node))
	}
	return *c.features
}

// Subject gives a client. node is that of the first request of its stream (STR-1), nil if
// there was none: then rules that look at it fail. Neither is changed.
func (s *Set) Subject(node *corev3.Node, peer keyer.Peer) *Subject {
	return &Subject{set: s, node: node, peer: peer}
}
