package files

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"
)

// maxNode bounds a node, in bytes of its JSON: aliases in YAML can stand for any amount.
const maxNode = 16 << 20

// ReadNode reads the node in a file. The error is a [*PlaceError] with the file's name, or that
// of the file system.
func ReadNode(path string) (*corev3.Node, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	node, bad := parseNode(data)
	if bad != nil {
		bad.File = path
		return nil, bad
	}
	return node, nil
}

// ParseNode reads a node in YAML or JSON, which is YAML. The error is a [*PlaceError].
func ParseNode(data []byte) (*corev3.Node, error) {
	node, bad := parseNode(data)
	if bad != nil {
		return nil, bad
	}
	return node, nil
}

// NodeFromYAML reads a node that is part of a larger file. The error is a [*PlaceError] with the
// place in that.
func NodeFromYAML(n *yaml.Node) (*corev3.Node, error) {
	text, places, invalid := YAMLNodeToJSON(n, maxNode)
	node, bad := decodeNode(text, places, invalid)
	if bad != nil {
		return nil, bad
	}
	return node, nil
}

func parseNode(data []byte) (*corev3.Node, *PlaceError) {
	text, places, invalid := YAMLToJSON(data, maxNode)
	return decodeNode(text, places, invalid)
}

func decodeNode(text []byte, places Places, invalid *PlaceError) (*corev3.Node, *PlaceError) {
	if invalid != nil {
		return nil, invalid
	}
	if strings.TrimSpace(string(text)) == "null" {
		return nil, &PlaceError{Message: "is empty"}
	}
	node := new(corev3.Node)
	if err := protojson.Unmarshal(text, node); err != nil {
		return nil, nodeError(err, places)
	}
	return node, nil
}

// position takes the place off an error of protojson.
var position = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:syntax error )?\(line (\d+):\d+\): ((?s:.*))$`) })

// reasons put errors of protojson into the words of somebody who wrote YAML.
var reasons = sync.OnceValue(func() []reason {
	return []reason{
		{regexp.MustCompile(`^invalid value for string field (\w+): ([-+.\w]+)$`), "expected a string for $1, got $2: put it in quotes"},
		{regexp.MustCompile(`^invalid value for string field (\w+): (?s:.*)`), "expected a string for $1"},
		{regexp.MustCompile(`^unexpected token \[(?s:.*)`), "expected a mapping, got a list"},
		{regexp.MustCompile(`^unexpected token \{(?s:.*)`), "expected a list, got a mapping"},
		{regexp.MustCompile(`^unexpected token ((?s:.*))$`), "expected a mapping or a list, got $1"},
		{regexp.MustCompile(`^error parsing "(\w+)", oneof ([\w.]+) is already set`), "$1: another field of $2 is set already"},
	}
})

type reason struct {
	pattern *regexp.Regexp
	message string
}

// nodeError makes a PlaceError of one of protojson, whose lines are those of the JSON.
func nodeError(err error, places Places) *PlaceError {
	// The module puts one of two kinds of space there, so that nobody relies on it.
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	bad := &PlaceError{}
	if m := position().FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // digits; an absurd number of them leaves the place unknown
		bad.Line, bad.Column = places.Of(line)
		text = m[2]
	}
	for _, r := range reasons() {
		if r.pattern.MatchString(text) {
			text = r.pattern.ReplaceAllString(text, r.message)
			break
		}
	}
	bad.Message = text
	return bad
}
