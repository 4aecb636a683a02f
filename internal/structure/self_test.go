package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// checked type-checks a package without imports.
func checked(t *testing.T, text string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var config types.Config
	p, err := config.Check("p", fset, []*ast.File{syntax}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSeeOwner(t *testing.T) {
	p := checked(t, `package p
type Table struct { good good; bad bad; worse worse; other *apart; entries map[string]*entry }
type good struct { first, last *entry; n int }
type bad struct { owner *Table }
type worse struct { good; part struct { owner *collection } }
type apart struct { owner *Table }
type entry struct { table *Table }
type collection struct { table *Table; changes log }
type log struct { entries []*entry }
`)
	if got := seeOwner(p.Scope()); !slices.Equal(got, []string{"bad", "worse"}) {
		t.Errorf("%q", got)
	}
}
