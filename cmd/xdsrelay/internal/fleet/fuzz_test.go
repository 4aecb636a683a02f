package fleet

import (
	"bytes"
	"errors"
	"testing"
)

// FuzzRead: whatever a file holds, there is a node or an error that knows a line of it.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"id: a\n---\nid: b\n", `[{"id":"a"},{"id":1}]`, "{\"id\":\"a\"}\n{", `{"node":{"id":"a"}}`, "- &a {id: x}\n- *a\n",
		`{"configs":[{"bootstrap":{"node":{"id":"a"}}}]}`, "configs: [{bootstrap: {node: {idd: a}}}]", "\xef\xbb\xbf{}", "", "a: b: c", "[[", "null",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		count, lines := 0, 2
		for _, end := range []string{"\n", "\r", "\u0085", "\u2028", "\u2029"} { // YAML has them all
			lines += bytes.Count(data, []byte(end))
		}
		for node, err := range Read(Stdin, bytes.NewReader(data)) {
			count++
			line := node.Line
			if bad, ok := errors.AsType[*Error](err); ok {
				line = bad.Line
			} else if node.Node == nil || line < 1 {
				t.Errorf("AGG-5: node %v in line %d, error %v", node.Node, line, err)
			}
			if line < 0 || line > lines {
				t.Errorf("AGG-5: line %d of %d: %v", line, lines, err)
			}
		}
		if count == 0 {
			t.Error("AGG-5: neither a node nor an error")
		}
	})
}
