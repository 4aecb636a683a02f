package nodefile

import (
	"os"
	"regexp"
	"strconv"
	"strings"
	"sync"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	"go.yaml.in/yaml/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/xdsrelay/xdsrelay/internal/yamljson"
)

// maxSize bounds a node, in bytes of its JSON: aliases in YAML can stand for any amount.
const maxSize = 16 << 20

// Error is what is wrong with a node. Its message may quote the node.
type Error = yamljson.Error

// Read reads the node in a file. The error is an [*Error] with the file's name, or that
// of the file system.
func Read(path string) (*corev3.Node, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	node, bad := parse(data)
	if bad != nil {
		bad.File = path
		return nil, bad
	}
	return node, nil
}

// Parse reads a node in YAML or JSON, which is YAML. The error is an [*Error].
func Parse(data []byte) (*corev3.Node, error) {
	node, bad := parse(data)
	if bad != nil {
		return nil, bad
	}
	return node, nil
}

// FromYAML reads a node that is part of a larger file. The error is an [*Error] with the
// place in that.
func FromYAML(n *yaml.Node) (*corev3.Node, error) {
	text, places, invalid := yamljson.FromNode(n, maxSize)
	node, bad := decode(text, places, invalid)
	if bad != nil {
		return nil, bad
	}
	return node, nil
}

func parse(data []byte) (*corev3.Node, *Error) {
	text, places, invalid := yamljson.Convert(data, maxSize)
	return decode(text, places, invalid)
}

func decode(text []byte, places yamljson.Places, invalid *Error) (*corev3.Node, *Error) {
	if invalid != nil {
		return nil, invalid
	}
	if strings.TrimSpace(string(text)) == "null" {
		return nil, &Error{Message: "is empty"}
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

// nodeError makes an Error of one of protojson, whose lines are those of the JSON.
func nodeError(err error, places yamljson.Places) *Error {
	// The module puts one of two kinds of space there, so that nobody relies on it.
	text := strings.TrimLeft(strings.TrimPrefix(err.Error(), "proto:"), " \u00a0")
	bad := &Error{}
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
