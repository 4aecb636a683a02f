package fleet

import (
	"bytes"
	"encoding/json"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// entry is one node of a file, in either form.
type entry struct {
	json []byte     // as it stands in the file
	yaml *yaml.Node // nil: json
	line int        // where it begins
}

// node reads an entry. A field that the message does not have is an error: it may be a
// misspelt one. Errors know their line of the file.
func (e entry) node() (*corev3.Node, *Error) {
	if e.yaml != nil {
		node, err := files.NodeFromYAML(inside(e.yaml))
		return node, placed(err, 0)
	}
	node := new(corev3.Node)
	if err := protojson.Unmarshal(e.json, node); err == nil {
		return node, nil
	}
	// It is something that has a node, or wrong: files.ParseNode takes longer and knows where.
	text, skipped := unwrap(e.json)
	node, err := files.ParseNode(text)
	return node, placed(err, e.line-1+skipped)
}

// peer gives the identity that is recorded beside a node in JSON; nil if there is none.
func (e entry) peer() *keyer.Peer {
	var recorded struct {
		Peer *keyer.Names `json:"peer"`
	}
	if e.json == nil || json.Unmarshal(e.json, &recorded) != nil || recorded.Peer == nil {
		return nil
	}
	return new(recorded.Peer.Peer())
}

// placed gives the line of the file, above which there are others.
func placed(err error, above int) *Error {
	if err == nil {
		return nil
	}
	bad := &Error{Err: err}
	if e, ok := err.(*files.PlaceError); ok { //nolint:errorlint // files.ParseNode gives it bare
		bad = &Error{Line: max(1, e.Line) + above, Column: e.Column, Err: &files.PlaceError{Message: e.Message}}
	}
	return bad
}

// unwrap finds the node in what has one: a bootstrap, or a config_dump of Envoy, of
// which the bootstrap is a part. It gives anything else as it is. skipped lines stand
// above what it gives.
func unwrap(text []byte) (node []byte, skipped int) {
	type bootstrap struct {
		Node json.RawMessage `json:"node"`
	}
	var outer struct {
		Node    json.RawMessage `json:"node"`
		Configs []struct {
			Bootstrap bootstrap `json:"bootstrap"`
		} `json:"configs"`
	}
	if err := json.Unmarshal(text, &outer); err != nil {
		return text, 0
	}
	node = outer.Node
	for _, c := range outer.Configs {
		if node == nil {
			node = c.Bootstrap.Node
		}
	}
	if !bytes.HasPrefix(node, []byte("{")) { // "node" is an ID elsewhere
		return text, 0
	}
	return node, linesBefore(text, node)
}

// inside is unwrap for YAML.
func inside(n *yaml.Node) *yaml.Node {
	if node := member(n, "node"); node != nil && node.Kind == yaml.MappingNode {
		return node
	}
	if configs := member(n, "configs"); configs != nil {
		for _, c := range configs.Content {
			if node := member(member(c, "bootstrap"), "node"); node != nil {
				return node
			}
		}
	}
	return n
}

// member is the value of a key of a mapping, nil if there is none.
func member(n *yaml.Node, key string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i+1]
		}
	}
	return nil
}
