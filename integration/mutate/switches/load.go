package main

import (
	"bytes"
	"context"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/testkit/golist"
)

// source is a package with switches.
type source struct {
	dir, name string
	path      string // to import it
	files     []*file
}

// load reads packages, with the types of their expressions: these decide which arithmetic can have a switch.
func load(ctx context.Context, root string, packages []string) ([]*source, error) {
	var patterns []string
	for _, p := range packages {
		patterns = append(patterns, "./"+p)
	}
	listed, err := golist.WithExports(ctx, root, patterns...)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	var all []*source
	for _, p := range listed {
		if p.DepOnly {
			continue
		}
		s := &source{dir: p.Dir, name: p.Name, path: p.ImportPath}
		for _, name := range p.GoFiles {
			path := filepath.Join(p.Dir, name)
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			f, err := read(set, path, text)
			if err != nil {
				return nil, err
			}
			s.files = append(s.files, f)
		}
		all = append(all, s)
	}
	imports := golist.Importer(set, listed)
	for _, s := range all {
		if err := s.judge(set, imports); err != nil {
			return nil, err
		}
	}

	return all, nil
}

// judge finds the operators that have no switch.
func (s *source) judge(set *token.FileSet, imports types.Importer) error {
	config := types.Config{Importer: imports}
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	var trees []*ast.File
	for _, f := range s.files {
		trees = append(trees, f.tree)
	}
	if _, err := config.Check(s.name, set, trees, info); err != nil {
		return err
	}
	for _, f := range s.files {
		for i := range f.operators {
			o := &f.operators[i]
			x, ok := o.node.(ast.Expr)
			if !ok {
				continue
			}
			is := info.Types[x]
			if b, ok := is.Type.Underlying().(*types.Basic); ok && b.Info()&types.IsString != 0 {
				o.kind = text
			} else if is.Value != nil || shifts(x) {
				o.kind = constant
			}
		}
	}

	return nil
}

// shifts reports whether an operand is a shift. Its type may be that of the other operand: a call would take it for
// an int.
func shifts(x ast.Expr) bool {
	b, ok := x.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	for _, operand := range []ast.Expr{b.X, b.Y} {
		if o, ok := ast.Unparen(operand).(*ast.BinaryExpr); ok && (o.Op == token.SHL || o.Op == token.SHR) {
			return true
		}
	}

	return false
}

// place is where an operator is, and of which kind.
type place struct {
	file         string // with the path to import its package
	line, column int
	kind         kind
}

// list writes down all operators.
func list(name string, all []*source) error {
	var lines strings.Builder
	for _, s := range all {
		for _, f := range s.files {
			for _, o := range f.operators {
				at := f.set.Position(o.at)
				fmt.Fprintf(&lines, "%s %s/%s %d %d %s\n", f.name, s.path, filepath.Base(f.path), at.Line, at.Column, o.kind)
			}
		}
	}

	return os.WriteFile(name, []byte(lines.String()), 0o600)
}

// operators reads what list wrote: the operators of files in their order.
func (s suite) operators() (map[string][]place, error) {
	text, err := os.ReadFile(s.list())
	if err != nil {
		return nil, err
	}
	all := make(map[string][]place)
	for line := range bytes.Lines(text) {
		var of string
		var p place
		if _, err := fmt.Sscanln(string(line), &of, &p.file, &p.line, &p.column, &p.kind); err != nil {
			return nil, err
		}
		all[of] = append(all[of], p)
	}

	return all, nil
}
