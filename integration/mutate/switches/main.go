// Command switches compiles all mutants of a package at once, for "make soak SUITE=mutate". To build and to
// link a program for each mutant would take longer than its tests.
//
//	switches write FILE ...           rewrites the files: the variable MUTANT of a process selects one mutant
//	switches which ORIGINAL MUTATED   prints the value of MUTANT that does to ORIGINAL what was done to MUTATED
//
// gremlins decides which mutants there are, and changes one token for each. A switch has the effect of that change.
// Some tokens have no switch: arithmetic, whose types the syntax does not tell, and statements that cannot
// become two. For these "which" prints nothing, and the mutant is compiled by itself.
package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(args []string) error {
	switch {
	case len(args) > 1 && args[0] == "write":
		for _, name := range args[1:] {
			if err := write(name); err != nil {
				return err
			}
		}

		return nil
	case len(args) == 3 && args[0] == "which":
		id, err := which(args[1], args[2])
		if id != "" {
			fmt.Println(id)
		}

		return err
	}

	return errors.New("usage: switches write FILE ... | switches which ORIGINAL MUTATED")
}

// write adds the switches to a file.
func write(name string) error {
	source, err := os.ReadFile(name) //nolint:gosec // because its caller names the files
	if err != nil {
		return err
	}
	f, err := read(name, source)
	if err != nil {
		return err
	}

	return os.WriteFile(name, f.switched(), 0o600) //nolint:gosec // the same
}

// which compares the operators of two files that differ in one.
func which(original, mutated string) (string, error) {
	var files [2]*file
	for i, name := range []string{original, mutated} {
		source, err := os.ReadFile(name) //nolint:gosec // because its caller names the files
		if err != nil {
			return "", err
		}
		if files[i], err = read(original, source); err != nil {
			return "", err
		}
	}
	was, is := files[0].operators, files[1].operators
	if len(was) != len(is) {
		return "", fmt.Errorf("%s has other operators than %s", mutated, original)
	}
	for i := range was {
		if was[i].token != is[i].token && was[i].switches(is[i].token) {
			return files[0].id(i, is[i].token), nil
		}
	}

	return "", nil
}

// file is a parsed file with its operators in the order of the syntax tree. gremlins changes one of them
// and prints the tree, so that the order stays, but no position.
type file struct {
	name      string
	source    []byte
	start     func(ast.Node) int
	end       func(ast.Node) int
	imports   int // where an import can be added
	operators []operator
}

// operator is a node whose token gremlins may change.
type operator struct {
	node   ast.Node
	token  token.Token
	inList bool // it is a statement in a list of statements: there may be an if instead
	inLoop bool // a continue may stand here
}

func read(name string, source []byte) (*file, error) {
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	f := &file{
		name:    filepath.Base(name),
		source:  source,
		start:   func(n ast.Node) int { return set.Position(n.Pos()).Offset },
		end:     func(n ast.Node) int { return set.Position(n.End()).Offset },
		imports: set.Position(tree.Name.End()).Offset,
	}
	var above []ast.Node
	ast.Inspect(tree, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]

			return true
		}
		if t, ok := tokenOf(n); ok && !constant(above) {
			f.operators = append(f.operators, operator{n, t, inList(above), inLoop(above)})
		}
		above = append(above, n)

		return true
	})

	return f, nil
}

func tokenOf(n ast.Node) (token.Token, bool) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.Op, true
	case *ast.IncDecStmt:
		return n.Tok, true
	case *ast.BranchStmt:
		return n.Tok, n.Label == nil
	default:
		return token.ILLEGAL, false
	}
}

func constant(above []ast.Node) bool {
	for _, n := range above {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			return true
		}
	}

	return false
}

func inList(above []ast.Node) bool {
	switch above[len(above)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause:
		return true
	default:
		return false
	}
}

func inLoop(above []ast.Node) bool {
	for _, n := range slices.Backward(above) {
		switch n.(type) {
		case *ast.ForStmt, *ast.RangeStmt:
			return true
		case *ast.FuncLit:
			return false
		}
	}

	return false
}
