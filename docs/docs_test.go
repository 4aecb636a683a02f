// Package docs has no code of its own: its tests hold the pages to the code.
package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// root is the repository, seen from here.
const root = ".."

// pages are the Markdown files of the repository, by their paths in it.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range files(t, ".md") {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(data)
	}
	return all
}

// page is one of them.
func page(t *testing.T, name string) string {
	t.Helper()
	text, ok := pages(t)[name]
	if !ok {
		t.Fatalf("there is no %s", name)
	}
	return text
}

// files are the files of the repository whose names end with a suffix. Test data and the
// packages that tests install are left out.
func files(t *testing.T, suffix string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains([]string{".git", "testdata", "node_modules", "bin"}, d.Name()):
			return fs.SkipDir
		case d.IsDir() && name != "." && suffix == ".go" && isModule(name):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, suffix):
			names = append(names, name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// isModule reports whether a folder holds a module of its own.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(root, folder, "go.mod"))
	return err == nil
}

// section is the part of a page under a heading, up to the next heading of its level.
func section(t *testing.T, text, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut("\n"+text, "\n"+heading+"\n")
	if !found {
		t.Fatalf("there is no heading %q", heading)
	}
	level := heading[:strings.Index(heading, " ")+1]
	rest, _, _ = strings.Cut(rest, "\n"+level)
	return rest
}

// cells are the cells of a table's rows, without heads and rules.
func cells(text string) (rows [][]string) {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if !strings.HasPrefix(line, "|") || strings.HasPrefix(line, "|--") || (i+1 < len(lines) && strings.HasPrefix(lines[i+1], "|--")) {
			continue
		}
		row := strings.Split(strings.Trim(line, "| "), " | ")
		for i := range row {
			row[i] = strings.TrimSpace(row[i])
		}
		rows = append(rows, row)
	}
	return rows
}

var (
	fence = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	span  = regexp.MustCompile("`([^`\n]+)`")
)

// spans are the code spans of a text, without code blocks.
func spans(text string) (all []string) {
	for _, m := range span.FindAllStringSubmatch(fence.ReplaceAllString(text, ""), -1) {
		all = append(all, m[1])
	}
	return all
}

// code is what is declared in the repository outside of tests: packages by the names of
// their folders, and in them "Function", "Type", "Type.Method" and "Type.field".
type code struct {
	packages []string                   // paths, in order
	declared map[string]map[string]bool // by the last element of the path
}

// source reads the code once for all tests.
func source(t *testing.T) code {
	t.Helper()
	readOnce.Do(func() { read = readCode(t) })
	return read
}

var (
	readOnce sync.Once
	read     code
)

func readCode(t *testing.T) code {
	t.Helper()
	c := code{declared: make(map[string]map[string]bool)}
	for _, name := range files(t, ".go") {
		if at := path.Dir(name); !slices.Contains(c.packages, at) {
			c.packages = append(c.packages, at)
		}
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		folder := path.Base(path.Dir(name))
		if c.declared[folder] == nil {
			c.declared[folder] = make(map[string]bool)
		}
		for _, d := range parsed.Decls {
			for _, identifier := range declares(d) {
				c.declared[folder][identifier] = true
			}
		}
	}
	return c
}

// declares lists what a declaration declares.
func declares(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return []string{receiver(d.Recv.List[0].Type) + "." + d.Name.Name}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			switch s := s.(type) {
			case *ast.TypeSpec:
				names = append(append(names, s.Name.Name), members(s)...)
			case *ast.ValueSpec:
				for _, n := range s.Names {
					names = append(names, n.Name)
				}
			}
		}
	}
	return names
}

// members lists the fields of a struct and the methods of an interface.
func members(s *ast.TypeSpec) (names []string) {
	var list *ast.FieldList
	switch typ := s.Type.(type) {
	case *ast.StructType:
		list = typ.Fields
	case *ast.InterfaceType:
		list = typ.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, s.Name.Name+"."+n.Name)
		}
	}
	return names
}

// receiver names the type of a method.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

var qualified = regexp.MustCompile(`^([a-z]+)\.([A-Za-z]\w*(?:\.[A-Za-z]\w*)?)$`)

// has reports whether a code span names something in the repository, as in
// "cache.Store.Apply", and whether that is there.
func (c *code) has(span string) (named, declared bool) {
	m := qualified.FindStringSubmatch(span)
	if m == nil || c.declared[m[1]] == nil {
		return false, false
	}
	return true, c.declared[m[1]][m[2]]
}
