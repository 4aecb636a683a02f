// Command shape prints figures of how the code is built, for "make shape": people read them, and no test fails by them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/testkit/golist"
)

// module begins the paths of the packages that are measured.
const module = "github.com/xdsrelay/xdsrelay/"

// subjects are types with functions that take one first, beside their methods.
var subjects = []string{"Table", "Store", "stream", "Server"}

func main() {
	linked := must(golist.WithExports(context.Background(), ".", "./cmd/xdsrelay"))
	set := token.NewFileSet()
	lines, packages, free := 0, 0, make(map[string]int)
	var writers []string
	for _, p := range linked {
		room, ours := strings.CutPrefix(p.ImportPath, module)
		if !ours {
			continue
		}
		files, n := parse(set, p)
		lines, packages = lines+n, packages+1
		for _, name := range freeFunctions(files) {
			free[room+"."+name]++
		}
		if room == "cache" {
			writers = writersOfEntries(set, p, files, golist.Importer(set, linked))
		}
	}
	fmt.Printf("lines of code that cmd/xdsrelay links, without comments: %d in %d packages\n", lines, packages)
	fmt.Printf("lines of tests: %d\n", linesOfTests("."))
	fmt.Printf("folders of internal/: %d\n", len(must(os.ReadDir("internal"))))
	fmt.Printf("functions that write Entry.state or Entry.res: %d %v\n", len(writers), writers)
	for _, name := range slices.Sorted(maps.Keys(free)) {
		fmt.Printf("functions whose first parameter is a *%s: %d\n", name, free[name])
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "shape:", err)
	os.Exit(1)
}

func must[T any](v T, err error) T {
	if err != nil {
		fail(err)
	}
	return v
}

// parse parses a package and counts its lines of code.
func parse(set *token.FileSet, p golist.Package) (files []*ast.File, lines int) {
	for _, name := range p.GoFiles {
		text := must(os.ReadFile(filepath.Join(p.Dir, name)))
		files = append(files, must(parser.ParseFile(set, name, text, parser.SkipObjectResolution)))
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines++
			}
		}
	}
	return files, lines
}

// freeFunctions has, for each function that is no method and takes a subject first, the subject's name.
func freeFunctions(files []*ast.File) (of []string) {
	for _, f := range files {
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if !ok || function.Recv != nil || len(function.Type.Params.List) == 0 {
				continue
			}
			if pointer, ok := function.Type.Params.List[0].Type.(*ast.StarExpr); ok {
				if name, ok := pointer.X.(*ast.Ident); ok && slices.Contains(subjects, name.Name) {
					of = append(of, name.Name)
				}
			}
		}
	}
	return of
}

// writersOfEntries lists the functions of package cache that assign to the state or the resource of an entry.
func writersOfEntries(set *token.FileSet, p golist.Package, files []*ast.File, importer types.Importer) (writers []string) {
	info := &types.Info{Selections: make(map[*ast.SelectorExpr]*types.Selection)}
	checked := must((&types.Config{Importer: importer}).Check(p.ImportPath, set, files, info))
	var written []types.Object
	for _, name := range []string{"state", "res"} {
		field, _, _ := types.LookupFieldOrMethod(checked.Scope().Lookup("Entry").Type(), true, checked, name)
		if field == nil {
			fail(fmt.Errorf("cache.Entry has no field %s any more", name))
		}
		written = append(written, field)
	}
	for _, f := range files {
		for _, d := range f.Decls {
			function, ok := d.(*ast.FuncDecl)
			if ok && writes(function, info, written) {
				writers = append(writers, function.Name.Name)
			}
		}
	}
	return writers
}

// writes reports whether a function assigns to one of some fields.
func writes(function *ast.FuncDecl, info *types.Info, fields []types.Object) bool {
	for n := range ast.Preorder(function) {
		assignment, ok := n.(*ast.AssignStmt)
		if ok && slices.ContainsFunc(assignment.Lhs, func(left ast.Expr) bool {
			s, ok := left.(*ast.SelectorExpr)
			return ok && info.Selections[s] != nil && slices.Contains(fields, info.Selections[s].Obj())
		}) {
			return true
		}
	}
	return false
}

// linesOfTests counts the lines of all tests under a folder.
func linesOfTests(root string) (lines int) {
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			lines += bytes.Count(must(os.ReadFile(path)), []byte("\n")) //nolint:gosec // because it is a file of this repository
		}
		return err
	})
	return must(lines, err)
}
