package fleet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

// split takes a file apart. YAML is read where JSON cannot be: that takes many times as
// long.
func split(file string, data []byte) iter.Seq2[entry, *Error] {
	return func(yield func(entry, *Error) bool) {
		data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
		entries, bad := splitJSON(data)
		if bad != nil && !isJSON(file) {
			entries, bad = splitYAML(data)
		}
		for _, e := range entries {
			if !yield(e, nil) {
				return
			}
		}
		if bad == nil && len(entries) == 0 {
			bad = &Error{Err: errors.New("there is no node in it")}
		}
		if bad != nil {
			yield(entry{}, bad)
		}
	}
}

// isJSON reports whether a file is JSON by its name, and not YAML that looks like it.
func isJSON(file string) bool {
	switch strings.ToLower(filepath.Ext(file)) {
	case ".json", ".jsonl", ".ndjson":
		return true
	default:
		return false
	}
}

// splitJSON reads JSON values that follow one another, and takes lists apart.
func splitJSON(data []byte) ([]entry, *Error) {
	var entries []entry
	lines := lineCounter{data: data}
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		var value json.RawMessage
		err := d.Decode(&value)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			at := int(d.InputOffset())
			if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
				at = int(syntax.Offset)
			}
			return entries, &Error{Line: lines.at(at), Err: fmt.Errorf("not JSON: %w", err)}
		}
		begin := int(d.InputOffset()) - len(value)
		if value[0] != '[' {
			entries = append(entries, entry{json: value, line: lines.at(begin)})
			continue
		}
		elements := json.NewDecoder(bytes.NewReader(value))
		_, _ = elements.Token() // the bracket; the list was found to be well-formed
		for elements.More() {
			var element json.RawMessage
			if err := elements.Decode(&element); err != nil {
				return entries, &Error{Line: lines.at(begin), Err: err}
			}
			at := begin + int(elements.InputOffset()) - len(element)
			entries = append(entries, entry{json: element, line: lines.at(at)})
		}
	}
}

// lineCounter gives the lines of offsets that grow.
type lineCounter struct {
	data         []byte
	offset, line int
}

func (c *lineCounter) at(offset int) int {
	if offset = min(offset, len(c.data)); offset > c.offset {
		c.line += bytes.Count(c.data[c.offset:offset], []byte("\n"))
		c.offset = offset
	}
	return c.line + 1
}

// linesBefore counts the lines of text above a part of it.
func linesBefore(text, part []byte) int {
	return bytes.Count(text[:max(0, bytes.Index(text, part))], []byte("\n"))
}

// splitYAML reads YAML documents, and takes lists apart.
func splitYAML(data []byte) ([]entry, *Error) {
	var entries []entry
	d := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		err := d.Decode(&document)
		if errors.Is(err, io.EOF) {
			return entries, nil
		}
		if err != nil {
			return entries, yamlError(err)
		}
		items := document.Content
		if len(items) == 1 && items[0].Kind == yaml.SequenceNode {
			items = items[0].Content
		}
		for _, item := range items {
			if item.Tag != "!!null" { // a document of comments
				entries = append(entries, entry{yaml: item, line: item.Line})
			}
		}
	}
}

// yamlError takes the line out of what the parser says.
func yamlError(err error) *Error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, scanned := fmt.Sscanf(text, "line %d: ", &line); scanned == nil {
		_, text, _ = strings.Cut(text, ": ")
	}
	return &Error{Line: line, Err: fmt.Errorf("not YAML: %s", text)}
}
