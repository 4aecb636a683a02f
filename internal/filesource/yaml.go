package filesource

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep YAML is followed; an alias inside of what it stands
// for would have no end.
const maxDepth = 1000

// maxMerges bounds how many mappings merge keys may name, each counted again
// wherever it is merged: that number may double with every line.
const maxMerges = 100_000

// places says where in a YAML file each line of the JSON made from it comes from.
type places []place

type place struct{ line, column int32 }

// of gives the place in the YAML of a line of the JSON, 0 if it has none.
func (p places) of(line int) (yamlLine, column int) {
	if line < 1 || line > len(p) {
		return 0, 0
	}
	return int(p[line-1].line), int(p[line-1].column)
}

// yamlToJSON gives the JSON that a YAML file stands for, with a line for each
// key and value. limit bounds its size: a few lines of aliases of aliases can
// stand for any amount.
func yamlToJSON(data []byte, limit int64) ([]byte, places, *Error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil, errorf("is empty")
	} else if err != nil {
		return nil, nil, yamlError(data, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, nil, yamlErrorAt(&second, "a second document: a file holds one")
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, yamlError(data, err)
	}
	// Quotes and line ends make JSON larger than the YAML that it comes from, and
	// aliases may be followed. The bound is the file's own: a small one must not stand
	// for a large one.
	w := jsonWriter{left: min(8*limit, 8*int64(len(data))+maxAliased), merges: maxMerges}
	if bad := w.value(document.Content[0], 0); bad != nil {
		return nil, nil, bad
	}
	return w.out.Bytes(), w.places, nil
}

// maxAliased is what aliases may add to a file, in bytes of JSON.
const maxAliased = 1 << 20

// jsonWriter writes YAML nodes as JSON.
type jsonWriter struct {
	out    bytes.Buffer
	places places
	left   int64 // bytes that may still be written
	merges int   // mappings that may still be merged
}

// put writes the end of a line, noting that it comes from n.
func (w *jsonWriter) put(n *yaml.Node, token string) *Error {
	if w.left -= int64(len(token)) + 1; w.left < 0 {
		return yamlErrorAt(n, "too large once its aliases are followed")
	}
	w.places = append(w.places, place{int32(n.Line), int32(n.Column)})
	w.out.WriteString(token)
	w.out.WriteByte('\n')
	return nil
}

func (w *jsonWriter) value(n *yaml.Node, depth int) *Error {
	if depth > maxDepth {
		return yamlErrorAt(n, "nested too deep")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return w.value(n.Alias, depth+1)
	case yaml.MappingNode:
		return w.mapping(n, depth)
	case yaml.SequenceNode:
		return w.sequence(n, depth)
	case yaml.ScalarNode:
		token, bad := scalar(n)
		if bad != nil {
			return bad
		}
		return w.put(n, token)
	default:
		return yamlErrorAt(n, "no value")
	}
}

func (w *jsonWriter) sequence(n *yaml.Node, depth int) *Error {
	if bad := w.put(n, "["); bad != nil {
		return bad
	}
	for i, element := range n.Content {
		if i > 0 {
			w.out.WriteByte(',')
		}
		if bad := w.value(element, depth+1); bad != nil {
			return bad
		}
	}
	return w.put(n, "]")
}

func (w *jsonWriter) mapping(n *yaml.Node, depth int) *Error {
	entries, bad := w.merged(n, depth)
	if bad != nil {
		return bad
	}
	if bad := w.put(n, "{"); bad != nil {
		return bad
	}
	for i := 0; i < len(entries); i += 2 {
		if i > 0 {
			w.out.WriteByte(',')
		}
		key := unaliased(entries[i])
		if key.Kind != yaml.ScalarNode {
			return yamlErrorAt(key, "expected a string as key")
		}
		if bad := w.put(key, quoted(key.Value)+":"); bad != nil {
			return bad
		}
		if bad := w.value(entries[i+1], depth+1); bad != nil {
			return bad
		}
	}
	return w.put(n, "}")
}

// merged gives the keys and values of a mapping in turn, with merge keys
// ("<<: *defaults") carried out: its own keys win over merged ones, and earlier
// merged ones over later ones.
func (w *jsonWriter) merged(n *yaml.Node, depth int) ([]*yaml.Node, *Error) {
	var own, sources []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if key := n.Content[i]; key.Kind == yaml.ScalarNode && key.ShortTag() == "!!merge" {
			sources = append(sources, mergeSources(n.Content[i+1])...)
		} else {
			own = append(own, key, n.Content[i+1])
		}
	}
	if len(sources) == 0 {
		return own, nil
	}
	taken := make(map[string]bool)
	for i := 0; i < len(own); i += 2 {
		taken[own[i].Value] = true
	}
	for _, source := range sources {
		if source.Kind != yaml.MappingNode {
			return nil, yamlErrorAt(source, "<< expects a mapping or a list of mappings")
		}
		if w.merges--; w.merges < 0 || depth > maxDepth {
			return nil, yamlErrorAt(source, "too large or too deep once its merge keys are followed")
		}
		entries, bad := w.merged(source, depth+1)
		if bad != nil {
			return nil, bad
		}
		for i := 0; i < len(entries); i += 2 {
			if key := entries[i].Value; !taken[key] {
				taken[key] = true
				own = append(own, entries[i], entries[i+1])
			}
		}
	}
	return own, nil
}

// mergeSources gives what the value of a merge key stands for.
func mergeSources(n *yaml.Node) []*yaml.Node {
	n = unaliased(n)
	if n.Kind != yaml.SequenceNode {
		return []*yaml.Node{n}
	}
	all := make([]*yaml.Node, len(n.Content))
	for i, m := range n.Content {
		all[i] = unaliased(m)
	}
	return all
}

// unaliased gives what an alias stands for, which is never an alias itself.
func unaliased(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// scalar gives a scalar as JSON. Dates are no type of JSON's and stay the text
// that they are.
func scalar(n *yaml.Node) (string, *Error) {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return quoted(n.Value), nil
	case "!!binary":
		return quoted(strings.Join(strings.Fields(n.Value), "")), nil
	case "!!null":
		return "null", nil
	case "!!bool", "!!int", "!!float":
		var v any
		if err := n.Decode(&v); err != nil {
			return "", yamlErrorAt(n, "not what its tag says")
		}
		return plain(v), nil
	default:
		return "", yamlErrorAt(n, "a tag that JSON has no type for")
	}
}

// plain gives a bool or a number as JSON, in protobuf's form where JSON has none.
func plain(v any) string {
	switch v := v.(type) {
	case bool:
		return strconv.FormatBool(v)
	case int:
		return strconv.Itoa(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case uint64:
		return strconv.FormatUint(v, 10)
	case float64:
		switch {
		case math.IsNaN(v):
			return `"NaN"`
		case math.IsInf(v, 1):
			return `"Infinity"`
		case math.IsInf(v, -1):
			return `"-Infinity"`
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	default:
		return "null"
	}
}

func quoted(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always has a form in JSON
	}
	return string(b)
}

func yamlErrorAt(n *yaml.Node, message string) *Error {
	return &Error{Line: n.Line, Column: n.Column, Message: message}
}

// yamlProblem matches the messages of the YAML parser, which are fixed texts, and
// not those that quote the file.
var yamlProblem = regexp.MustCompile(`^(?:found|did not find|could not find|mapping|block|control|invalid|incomplete) [\w '\[\]{},.:<>-]*$`)

// yamlError makes an Error of one of the YAML parser, which gives the line in
// the text only: "yaml: line 3: mapping values are not allowed in this context".
func yamlError(data []byte, err error) *Error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	bad := &Error{Message: "syntax error"}
	if m := regexp.MustCompile(`^line (\d+): ((?s:.*))$`).FindStringSubmatch(message); m != nil {
		bad.Line, _ = strconv.Atoi(m[1]) // digits; an absurd number of them leaves the line unknown
		message = m[2]
	}
	if m := regexp.MustCompile(`^unknown anchor '(.*)' referenced$`).FindStringSubmatch(message); m != nil {
		bad.Message = "an alias of nothing"
		bad.Line = 1 + bytes.Count(data[:max(0, bytes.Index(data, []byte("*"+m[1])))], []byte("\n"))
	} else if yamlProblem.MatchString(message) {
		bad.Message = message
	}
	// The parser proper counts lines from 0 and leaves 0 out, the scanner below it
	// counts from 1.
	if strings.HasPrefix(message, "did not find expected ") && !strings.Contains(message, "comment or line break") {
		bad.Line++
	}
	// The end of the file counts as a line of its own to the parser.
	bad.Line = min(bad.Line, 1+bytes.Count(bytes.TrimRight(data, "\r\n"), []byte("\n")))
	return bad
}
