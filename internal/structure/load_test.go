package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/golist"
)

const (
	module     = "github.com/xdsrelay/xdsrelay"
	moduleRoot = "../.."
)

// watched has the module's files count as opened by the test: "go test" runs a test again when such a file changes. What
// "go list" opens does not count.
func watched(t *testing.T) {
	t.Helper()
	moduleImports(t)
}

// load parses and type-checks a package of the module. What it imports comes from the compiler's export data.
func load(t *testing.T, room string) *types.Package {
	t.Helper()
	watched(t)
	listed, err := golist.WithExports(t.Context(), moduleRoot, "./"+room)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	var files []*ast.File
	p := listed[len(listed)-1] // packages come after what they import
	for _, name := range p.GoFiles {
		parsed, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parsed)
	}
	config := types.Config{Importer: golist.Importer(set, listed)}
	checked, err := config.Check(p.ImportPath, set, files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return checked
}
