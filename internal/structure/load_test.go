package structure

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const (
	module     = "github.com/xdsrelay/xdsrelay"
	moduleRoot = "../.."
)

// listed is what "go list" tells of a package.
type listed struct {
	ImportPath string   `json:"ImportPath"`
	Dir        string   `json:"Dir"`
	Export     string   `json:"Export"` // file of export data
	GoFiles    []string `json:"GoFiles"`
}

// room returns the package's path inside the module; ok is false for a package of
// another module.
func (l listed) room() (path string, ok bool) { return strings.CutPrefix(l.ImportPath, module+"/") }

// list asks "go list" with arguments at the root of the module. Packages come after
// the packages that they import if args has -deps.
func list(t *testing.T, args ...string) []listed {
	t.Helper()
	// "go test" runs a test again when a file or a folder that the test has opened
	// changes. What "go list" opens does not count.
	moduleImports(t)
	fields := "-json=ImportPath,Dir,Export,GoFiles"
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", fields}, args...)...)
	cmd.Dir = moduleRoot
	out, err := cmd.Output()
	if exit, failed := errors.AsType[*exec.ExitError](err); failed {
		t.Fatalf("%s: %v: %s", cmd, err, exit.Stderr)
	} else if err != nil {
		t.Fatal(err)
	}
	var all []listed
	decoder := json.NewDecoder(strings.NewReader(string(out)))
	for decoder.More() {
		var l listed
		if err := decoder.Decode(&l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// source is a package that was parsed and type-checked.
type source struct {
	room  string
	types *types.Package
	info  *types.Info
	files []*file
}

// file is a file of a source.
type file struct {
	path   string // inside the module
	lines  int
	syntax *ast.File
}

// code is all sources that were loaded.
type code struct {
	fset    *token.FileSet
	root    string
	exports map[string]string // import path → file of export data
	sources map[string]*source
	order   []string       // of sources: packages come after what they import
	other   types.Importer // packages of other modules
}

// load parses and type-checks the packages of patterns and all of the module that
// they import. The rest comes from the compiler's export data.
func load(t *testing.T, patterns ...string) *code {
	t.Helper()
	root, err := filepath.Abs(moduleRoot)
	if err != nil {
		t.Fatal(err)
	}
	c := &code{fset: token.NewFileSet(), root: root, exports: make(map[string]string), sources: make(map[string]*source)}
	c.other = importer.ForCompiler(c.fset, "gc", c.export)
	for _, l := range list(t, append([]string{"-export", "-deps"}, patterns...)...) {
		c.exports[l.ImportPath] = l.Export
		if room, ok := l.room(); ok {
			s, err := c.check(room, l)
			if err != nil {
				t.Fatal(err)
			}
			c.sources[room] = s
			c.order = append(c.order, room)
		}
	}
	return c
}

func (c *code) export(path string) (io.ReadCloser, error) {
	file, ok := c.exports[path]
	if !ok {
		return nil, fmt.Errorf("no export data of %s", path)
	}
	return os.Open(file)
}

// Import implements types.Importer.
func (c *code) Import(path string) (*types.Package, error) {
	if room, ok := strings.CutPrefix(path, module+"/"); ok {
		return c.sources[room].types, nil
	}
	return c.other.Import(path)
}

func (c *code) check(room string, l listed) (*source, error) {
	s := &source{room: room, info: &types.Info{Uses: make(map[*ast.Ident]types.Object)}}
	var syntax []*ast.File
	for _, name := range l.GoFiles {
		full := filepath.Join(l.Dir, name)
		parsed, err := parser.ParseFile(c.fset, full, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, parsed)
		s.files = append(s.files, &file{path: c.inside(full), lines: c.fset.File(parsed.FileStart).LineCount(), syntax: parsed})
	}
	config := types.Config{Importer: c}
	var err error
	s.types, err = config.Check(l.ImportPath, c.fset, syntax, s.info)
	return s, err
}

// inside returns the path of a file inside the module.
func (c *code) inside(full string) string {
	path, err := filepath.Rel(c.root, full)
	if err != nil {
		return full
	}
	return filepath.ToSlash(path)
}

func (c *code) file(p token.Pos) string { return c.inside(c.fset.Position(p).Filename) }

func (c *code) line(p token.Pos) int { return c.fset.Position(p).Line }
