package watch

import (
	"encoding/json"
	"errors"
	"fmt"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// ParseNode reads a node in YAML or JSON, with the fields of
// envoy.config.core.v3.Node; a field that the message does not have is an error.
func ParseNode(data []byte) (*corev3.Node, error) {
	var tree any
	if err := yaml.Unmarshal(data, &tree); err != nil { // JSON is YAML
		return nil, err
	}
	if tree == nil {
		return nil, errors.New("the node is empty")
	}
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("the node has keys that are not text: %w", err)
	}
	node := new(corev3.Node)
	if err := protojson.Unmarshal(text, node); err != nil {
		return nil, fmt.Errorf("not a node: %w", err)
	}
	return node, nil
}
