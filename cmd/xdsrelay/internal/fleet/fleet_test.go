package fleet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// folder makes files below a folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// read gives each node as "file:line id", and each error as it is.
func read(t *testing.T, path, stdin, dir string) []string {
	t.Helper()
	var got []string
	for node, err := range Read(path, strings.NewReader(stdin)) {
		text := fmt.Sprintf("%s:%d %s", node.File, node.Line, node.GetId())
		if err != nil {
			text = err.Error()
		}
		got = append(got, strings.ReplaceAll(strings.ReplaceAll(text, dir+string(filepath.Separator), ""), "\u00a0", " "))
	}
	return got
}

func TestRead(t *testing.T) {
	for _, tt := range []struct {
		name  string
		files map[string]string
		want  []string
	}{
		{"one node each, in order", map[string]string{
			"b.yaml": "id: b\n", "a.json": `{"id": "a"}`, "c/d.yml": "# a node\nid: d\n", "C.YAML": "id: c\n",
		}, []string{"C.YAML:1 c", "a.json:1 a", "b.yaml:1 b", "c/d.yml:2 d"}},
		{"hidden files and others are left out", map[string]string{
			".x.yaml": "id: x\n", ".git/y.yaml": "id: y\n", "README.md": "id: z\n", "a.yaml": "id: a\n",
		}, []string{"a.yaml:1 a"}},
		{"a list", map[string]string{"a.json": "[\n  {\"id\": \"a\"},\n  {\"id\": \"b\"}\n]\n", "b.yaml": "- id: c\n- {id: d}\n"},
			[]string{"a.json:2 a", "a.json:3 b", "b.yaml:1 c", "b.yaml:2 d"}},
		{"documents", map[string]string{"a.yaml": "id: a\n---\n# nothing\n---\nid: b\n"}, []string{"a.yaml:1 a", "a.yaml:5 b"}},
		{"JSON lines", map[string]string{"a.jsonl": "{\"id\":\"a\"}\n\n{\"id\":\"b\"}\n"}, []string{"a.jsonl:1 a", "a.jsonl:3 b"}},
		{"YAML that looks like JSON", map[string]string{"a.yaml": "{id: a}\n"}, []string{"a.yaml:1 a"}},
		{"JSON with a byte order mark", map[string]string{"a.json": "\xef\xbb\xbf{\"id\":\"a\"}"}, []string{"a.json:1 a"}},
		{"a bootstrap", map[string]string{
			"a.json": `{"xds_servers": [], "node": {"id": "grpc"}}`, "b.yaml": "admin: {}\nnode:\n  id: envoy\n",
		}, []string{"a.json:1 grpc", "b.yaml:1 envoy"}},
		{"a config_dump", map[string]string{
			"a.json": `{"configs": [{"@type": "x"}, {"bootstrap": {"node": {"id": "envoy", "userAgentName": "envoy"}}}]}`,
			"b.yaml": "configs:\n- {}\n- bootstrap: {node: {id: yaml}}\n",
		}, []string{"a.json:1 envoy", "b.yaml:1 yaml"}},
		{"a wrong node, and what follows", map[string]string{
			"a.json": "[{\"id\": \"a\"},\n {\n  \"idd\": \"b\"},\n {\"id\": \"c\"}]", "b.yaml": "- id: a\n- id: [x]\n- id: c\n",
		}, []string{
			"a.json:1 a", `a.json:3:3: unknown field "idd"`, "a.json:4 c",
			"b.yaml:1 a", "b.yaml:2:7: expected a string for id", "b.yaml:3 c",
		}},
		{"a wrong node within", map[string]string{"a.json": "{\n\"node\":\n{\"id\": 1}}"}, []string{"a.json:3:8: expected a string for id, got 1: put it in quotes"}},
		{"the rest of a file", map[string]string{"a.json": "{\"id\": \"a\"}\n{\"id\": \"b\"\n{", "b.yaml": "id: b\n"}, []string{
			"a.json:1 a", "a.json:3: not JSON: invalid character '{' after object key:value pair", "b.yaml:1 b",
		}},
		{"no YAML", map[string]string{"a.yaml": "id: a\n  x: y\n"}, []string{"a.yaml:2: not YAML: mapping values are not allowed in this context"}},
		{"what /clients shows", map[string]string{"a.json": `[{"id": 1, "node": "a"}]`}, []string{"a.json:1:8: expected a string for id, got 1: put it in quotes"}},
		{"an empty file", map[string]string{"a.yaml": "# nothing\n", "b.json": " "}, []string{"a.yaml: there is no node in it", "b.json: there is no node in it"}},
		{"an empty folder", map[string]string{"README.md": ""}, []string{"DIR: no node files in this folder: expected .yaml, .yml, .json, .jsonl, .ndjson"}},
	} {
		t.Run("AGG-5 "+tt.name, func(t *testing.T) {
			dir := folder(t, tt.files)
			got := read(t, dir, "", dir)
			for i := range got {
				got[i] = strings.ReplaceAll(got[i], dir, "DIR")
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReadOther(t *testing.T) {
	dir := folder(t, map[string]string{"node": "id: a\n"})
	if got := read(t, filepath.Join(dir, "node"), "", dir); !slices.Equal(got, []string{"node:1 a"}) {
		t.Errorf("AGG-5: a file of any name: %q", got)
	}
	if got := read(t, Stdin, "{\"id\":\"a\"}\n{\"id\":\"b\"}\n", dir); !slices.Equal(got, []string{"standard input:1 a", "standard input:2 b"}) {
		t.Errorf("AGG-5: standard input: %q", got)
	}
	if got := read(t, filepath.Join(dir, "none"), "", dir); !slices.Equal(got, []string{"none: no such file or directory"}) {
		t.Errorf("AGG-5: no file: %q", got)
	}
	for range Read(Stdin, strings.NewReader("{}\n{}\n")) {
		break // whoever has enough may stop
	}
}

func TestOne(t *testing.T) {
	for text, want := range map[string]string{
		"id: a\n":                       "a <nil>",
		`{"node": {"id": "bootstrap"}}`: "bootstrap <nil>",
		"id: a\n---\nid: b\n":           " standard input:3: there is more than one node",
		"idd: a\n":                      ` standard input:1:1: unknown field "idd"`,
		"":                              " standard input: there is no node in it",
	} {
		node, err := One(Stdin, strings.NewReader(text))
		if got := strings.ReplaceAll(fmt.Sprintf("%s %v", node.GetId(), err), "\u00a0", " "); got != want {
			t.Errorf("AGG-5: %q gives %q, want %q", text, got, want)
		}
	}
	if _, err := One(Stdin, strings.NewReader("{}\n{}\n")); !errors.Is(err, ErrMore) {
		t.Errorf("AGG-5: %v", err)
	}
}
