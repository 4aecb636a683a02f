package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// boundary and negation are the changes of gremlins to comparisons.
var (
	boundary = map[token.Token]token.Token{token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR}
	negation = map[token.Token]token.Token{
		token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR, token.EQL: token.NEQ, token.NEQ: token.EQL,
	}
	others = map[token.Token]token.Token{
		token.LAND: token.LOR, token.LOR: token.LAND, token.INC: token.DEC, token.DEC: token.INC, token.BREAK: token.CONTINUE, token.CONTINUE: token.BREAK,
	}
)

// switches reports whether a switch can change the operator to another one.
func (o operator) switches(to token.Token) bool {
	switch o.token {
	case token.INC, token.DEC:
		return o.inList && others[o.token] == to
	case token.BREAK, token.CONTINUE:
		return o.inList && o.inLoop && others[o.token] == to
	default:
		return to != token.ILLEGAL && (boundary[o.token] == to || negation[o.token] == to || others[o.token] == to)
	}
}

func (f *file) id(i int, to token.Token) string { return fmt.Sprintf("%s:%d:%s", f.name, i, to) }

// variable is the name of a switch. All files of a package have different ones.
func (f *file) variable(i int, to token.Token) string {
	return fmt.Sprintf("mutant_%s_%d_%d", strings.NewReplacer(".", "_", "-", "_").Replace(f.name), i, to)
}

// insertion is text before an offset. Of several at one offset, those that end something come first, inner ones
// before outer ones. Then come those that begin something, outer ones before inner ones.
type insertion struct {
	at    int
	order int
	text  string
}

// switched returns the file with all of its switches.
func (f *file) switched() []byte {
	var all []insertion
	var variables strings.Builder
	open := func(n ast.Node, size int, text string) { all = append(all, insertion{f.start(n), 1<<30 - size, text}) }
	closed := func(n ast.Node, size int, text string) { all = append(all, insertion{f.end(n), size - 1<<30, text}) }
	declare := func(i int, to token.Token) string {
		v := f.variable(i, to)
		fmt.Fprintf(&variables, "var %s = mutantos.Getenv(\"MUTANT\") == %q\n", v, f.id(i, to))

		return v
	}
	for i, o := range f.operators {
		size := f.end(o.node) - f.start(o.node)
		switch {
		case o.switches(negation[o.token]):
			x := o.node.(*ast.BinaryExpr)
			before, after := "((", fmt.Sprintf(") != %s)", declare(i, negation[o.token]))
			if to := boundary[o.token]; o.switches(to) {
				v := declare(i, to)
				before = fmt.Sprintf("((%s && (%s %s %s) || !%s && (", v, f.text(x.X), to, f.text(x.Y), v)
				after = ")" + after
			}
			open(x, size, before)
			closed(x, size, after)
		case !o.switches(others[o.token]):
		case o.token == token.LAND, o.token == token.LOR:
			// By De Morgan one is the other with its operands and its result negated.
			x, v := o.node.(*ast.BinaryExpr), declare(i, others[o.token])
			open(x.X, size, "((((")
			closed(x.X, size, fmt.Sprintf(") != %s)", v))
			open(x.Y, size, "((")
			closed(x.Y, size, fmt.Sprintf(") != %s)) != %s)", v, v))
		case o.token == token.BREAK, o.token == token.CONTINUE:
			open(o.node, size, fmt.Sprintf("if %s { %s }; ", declare(i, others[o.token]), others[o.token]))
		default:
			s := o.node.(*ast.IncDecStmt)
			open(s, size, fmt.Sprintf("if %s { %s%s } else { ", declare(i, others[o.token]), f.text(s.X), others[o.token]))
			closed(s, size, " }")
		}
	}
	if variables.Len() == 0 {
		return f.source
	}
	all = append(all, insertion{f.imports, 0, "; import mutantos \"os\""}, insertion{len(f.source), 0, "\n" + variables.String()})

	return f.insert(all)
}

func (f *file) text(n ast.Node) string { return string(f.source[f.start(n):f.end(n)]) }

func (f *file) insert(all []insertion) []byte {
	slices.SortStableFunc(all, func(a, b insertion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var result []byte
	at := 0
	for _, i := range all {
		result = append(append(result, f.source[at:i.at]...), i.text...)
		at = i.at
	}

	return append(result, f.source[at:]...)
}
