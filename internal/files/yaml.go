package files

import (
	"bytes"
	"errors"
	"io"

	"go.yaml.in/yaml/v3"
)

// maxDepth bounds how deep YAML is followed; an alias inside of what it stands
// for would have no end.
const maxDepth = 1000

// maxMerges bounds how many mappings merge keys may name, each counted again
// wherever it is merged: that number may double with every line.
const maxMerges = 100_000

// Places says where in a YAML file each line of the JSON made from it comes from.
type Places []place

type place struct{ line, column int32 }

// Of gives the place in the YAML of a line of the JSON, 0 if it has none.
func (p Places) Of(line int) (yamlLine, column int) {
	if line < 1 || line > len(p) {
		return 0, 0
	}
	return int(p[line-1].line), int(p[line-1].column)
}

// YAMLToJSON gives the JSON that a YAML file of one document stands for, with a line for
// each key and value. limit bounds its size: a few lines of aliases of aliases can
// stand for any amount.
func YAMLToJSON(data []byte, limit int64) ([]byte, Places, *PlaceError) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil, &PlaceError{Message: "is empty"}
	} else if err != nil {
		return nil, nil, syntaxError(data, err)
	}
	if err := decoder.Decode(&second); err == nil {
		return nil, nil, errorAt(&second, "a second document: a file holds one")
	} else if !errors.Is(err, io.EOF) {
		return nil, nil, syntaxError(data, err)
	}
	// Quotes and line ends make JSON larger than the YAML that it comes from, and
	// aliases may be followed. The bound is the file's own: a small one must not stand
	// for a large one.
	return convert(document.Content[0], min(8*limit, 8*int64(len(data))+maxAliased))
}

// YAMLNodeToJSON is [YAMLToJSON] for a part of a file that was read already. limit bounds the
// JSON.
func YAMLNodeToJSON(n *yaml.Node, limit int64) ([]byte, Places, *PlaceError) {
	return convert(n, limit)
}

func convert(n *yaml.Node, limit int64) ([]byte, Places, *PlaceError) {
	w := jsonWriter{left: limit, merges: maxMerges}
	if bad := w.value(n, 0); bad != nil {
		return nil, nil, bad
	}
	return w.out.Bytes(), w.places, nil
}

// maxAliased is what aliases may add to a file, in bytes of JSON.
const maxAliased = 1 << 20

// jsonWriter writes YAML nodes as JSON.
type jsonWriter struct {
	out    bytes.Buffer
	places Places
	left   int64 // bytes that may still be written
	merges int   // mappings that may still be merged
}

// put writes the end of a line, noting that it comes from n.
func (w *jsonWriter) put(n *yaml.Node, token string) *PlaceError {
	if w.left -= int64(len(token)) + 1; w.left < 0 {
		return errorAt(n, "too large once its aliases are followed")
	}
	w.places = append(w.places, place{int32(n.Line), int32(n.Column)})
	w.out.WriteString(token)
	w.out.WriteByte('\n')
	return nil
}

func (w *jsonWriter) value(n *yaml.Node, depth int) *PlaceError {
	if depth > maxDepth {
		return errorAt(n, "nested too deep")
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
		return errorAt(n, "no value")
	}
}

func (w *jsonWriter) sequence(n *yaml.Node, depth int) *PlaceError {
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

func (w *jsonWriter) mapping(n *yaml.Node, depth int) *PlaceError {
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
			return errorAt(key, "expected a string as key")
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
func (w *jsonWriter) merged(n *yaml.Node, depth int) ([]*yaml.Node, *PlaceError) {
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
			return nil, errorAt(source, "<< expects a mapping or a list of mappings")
		}
		if w.merges--; w.merges < 0 || depth > maxDepth {
			return nil, errorAt(source, "too large or too deep once its merge keys are followed")
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
