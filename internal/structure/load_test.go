package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/golist"
)

const (
	module     = "github.com/xdsrelay/xdsrelay"
	moduleRoot = "../.."
)

// roomOf returns a package's path inside the module; ok is false for a package of another module.
func roomOf(p golist.Package) (path string, ok bool) {
	return strings.CutPrefix(p.ImportPath, module+"/")
}

// watched has the module's files count as opened by the test: "go test" runs a test again when such a file changes. What
// "go list" opens does not count.
func watched(t *testing.T) {
	t.Helper()
	moduleImports(t)
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
	watched(t)
	listed, err := golist.WithExports(t.Context(), moduleRoot, patterns...)
	if err != nil {
		t.Fatal(err)
	}
	c := &code{fset: token.NewFileSet(), root: root, sources: make(map[string]*source)}
	c.other = golist.Importer(c.fset, listed)
	for _, p := range listed {
		if room, ok := roomOf(p); ok {
			s, err := c.check(room, p)
			if err != nil {
				t.Fatal(err)
			}
			c.sources[room] = s
			c.order = append(c.order, room)
		}
	}
	return c
}

// Import implements types.Importer.
func (c *code) Import(path string) (*types.Package, error) {
	if room, ok := strings.CutPrefix(path, module+"/"); ok {
		return c.sources[room].types, nil
	}
	return c.other.Import(path)
}

func (c *code) check(room string, p golist.Package) (*source, error) {
	s := &source{room: room, info: &types.Info{Uses: make(map[*ast.Ident]types.Object)}}
	var syntax []*ast.File
	for _, name := range p.GoFiles {
		full := filepath.Join(p.Dir, name)
		parsed, err := parser.ParseFile(c.fset, full, nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		syntax = append(syntax, parsed)
		s.files = append(s.files, &file{path: c.inside(full), lines: c.fset.File(parsed.FileStart).LineCount(), syntax: parsed})
	}
	config := types.Config{Importer: c}
	var err error
	s.types, err = config.Check(p.ImportPath, c.fset, syntax, s.info)
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
