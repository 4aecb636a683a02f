package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
)

// file is a parsed file with its operators in the order of the syntax tree. gremlins changes one of them
// and prints the tree, so that the order stays, but no position.
type file struct {
	path      string
	name      string // with the name of its package: no other one has it
	source    []byte
	set       *token.FileSet
	tree      *ast.File
	operators []operator
}

// operator is a node whose token gremlins may change.
type operator struct {
	node   ast.Node
	token  token.Token
	at     token.Pos
	inList bool // it is a statement in a list of statements: there may be an if instead
	kind   kind
}

// kind says what becomes of an operator.
type kind string

const (
	switched kind = "switched"
	constant kind = "constant" // of a constant expression, which no switch can change: a mutant is compiled by itself
	text     kind = "text"     // "+" of strings: no mutant compiles
)

// change is what gremlins does to an operator.
type change int

const (
	noSwitch change = iota
	boundary        // "<" becomes "<="
	other
)

var (
	boundaries = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	others     = map[token.Token]token.Token{
		token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
		token.LAND: token.LOR, token.LOR: token.LAND, token.INC: token.DEC, token.DEC: token.INC,
		token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	}
)

func (o operator) changeTo(to token.Token) change {
	switch to {
	case boundaries[o.token]:
		return boundary
	case others[o.token]:
		return other
	default:
		return noSwitch
	}
}

func read(set *token.FileSet, path string, source []byte) (*file, error) {
	f := &file{path: path, source: source, set: set}
	var err error
	if f.tree, err = parser.ParseFile(f.set, path, source, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	f.name = f.tree.Name.Name + "/" + filepath.Base(path)
	var above []ast.Node
	ast.Inspect(f.tree, func(n ast.Node) bool {
		if n == nil {
			above = above[:len(above)-1]

			return true
		}
		if t, at := tokenOf(n); others[t] != token.ILLEGAL {
			f.operators = append(f.operators, operator{n, t, at, inList(above), kindIn(above)})
		}
		above = append(above, n)

		return true
	})

	return f, nil
}

func tokenOf(n ast.Node) (token.Token, token.Pos) {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return n.Op, n.OpPos
	case *ast.IncDecStmt:
		return n.Tok, n.TokPos
	case *ast.UnaryExpr:
		return n.Op, n.OpPos
	default:
		return token.ILLEGAL, token.NoPos
	}
}

func kindIn(above []ast.Node) kind {
	for _, n := range above {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			return constant
		}
	}

	return switched
}

func inList(above []ast.Node) bool {
	switch above[len(above)-1].(type) {
	case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		return true
	default:
		return false
	}
}
