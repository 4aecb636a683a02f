package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

const supportName = "mutants.go"

// support is a file of each package with switches. Each of its files has a variable that decides for its switches.
const support = `package %s

import (
	"fmt"
	"os"
)

type mutants struct {
	name         string
	site, change int
	reached      []bool
}

func mutantsOf(name string, sites int) *mutants {
	m := &mutants{name: name, site: -1}
	fmt.Sscanf(os.Getenv("MUTANT"), name+":%%d:%%d", &m.site, &m.change)
	if os.Getenv("MUTANT_NOTES") != "" {
		m.reached = make([]bool, sites)
	}
	return m
}

func (m *mutants) is(site, change int) bool {
	if m.reached != nil {
		m.note(site)
	}
	return site == m.site && change == m.change
}

func (m *mutants) note(site int) {
	if m.reached[site] {
		return
	}
	m.reached[site] = true
	f, err := os.OpenFile(os.Getenv("MUTANT_NOTES"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err == nil {
		_, err = fmt.Fprintf(f, "%%s %%d\n", m.name, site)
		f.Close()
	}
	if err != nil {
		panic(err)
	}
}

type mutantNumber interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr | ~float32 | ~float64
}

func mutantADD[T mutantNumber](is bool, a, b T) T {
	if is {
		return a - b
	}
	return a + b
}

func mutantSUB[T mutantNumber](is bool, a, b T) T {
	if is {
		return a + b
	}
	return a - b
}

func mutantMUL[T mutantNumber](is bool, a, b T) T {
	if is {
		return a / b
	}
	return a * b
}

func mutantQUO[T mutantNumber](is bool, a, b T) T {
	if is {
		return a * b
	}
	return a / b
}

func mutantREM[T interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}](is bool, a, b T) T {
	if is {
		return a * b
	}
	return a %% b
}

func mutantNEG[T mutantNumber](is bool, a T) T {
	if is {
		return +a
	}
	return -a
}

func mutantINC[T mutantNumber](is bool, a T) T { return mutantADD(is, a, 1) }

func mutantDEC[T mutantNumber](is bool, a T) T { return mutantSUB(is, a, 1) }
`

// arithmetic has the functions of the support file.
var arithmetic = map[token.Token]string{
	token.ADD: "mutantADD", token.SUB: "mutantSUB", token.MUL: "mutantMUL", token.QUO: "mutantQUO", token.REM: "mutantREM",
	token.INC: "mutantINC", token.DEC: "mutantDEC",
}

// id is the value of MUTANT that selects a mutant.
func (f *file) id(i int, c change) string { return fmt.Sprintf("%s:%d:%d", f.name, i, c) }

// variable decides for the switches of the file.
func (f *file) variable() string {
	return "mutants_" + strings.NewReplacer("/", "_", ".", "_", "-", "_").Replace(f.name)
}

// insertion is text before an offset. Of several at one offset, those that end something come first, inner ones
// before outer ones. Then come those that begin something, outer ones before inner ones.
type insertion struct {
	at      int
	order   int
	text    string
	instead int // of so many bytes
}

// switched returns the file with all of its switches.
func (f *file) switched() []byte {
	all := []insertion{{at: len(f.source), text: fmt.Sprintf("\nvar %s = mutantsOf(%q, %d)\n", f.variable(), f.name, len(f.operators))}}
	for i, o := range f.operators {
		all = append(all, f.switchOf(i, o)...)
	}

	return f.insert(all)
}

// switchOf returns the text that makes an operator a switch.
func (f *file) switchOf(i int, o operator) (all []insertion) {
	size := f.end(o.node) - f.start(o.node)
	open := func(n ast.Node, text string) {
		all = append(all, insertion{at: f.start(n), order: 1<<30 - size, text: text})
	}
	closed := func(n ast.Node, text string) {
		all = append(all, insertion{at: f.end(n), order: size - 1<<30, text: text})
	}
	is := func(c change) string { return fmt.Sprintf("%s.is(%d, %d)", f.variable(), i, c) }
	x, binary := o.node.(*ast.BinaryExpr)
	switch {
	case o.kind != switched:
	case o.token == token.LAND, o.token == token.LOR:
		// By De Morgan one is the other with its operands and its result negated.
		open(x.X, "((((")
		closed(x.X, fmt.Sprintf(") != %s)", is(other)))
		open(x.Y, "((")
		closed(x.Y, fmt.Sprintf(") != %s)) != %s)", is(other), is(other)))
	case boundaries[o.token] != token.ILLEGAL:
		open(x, fmt.Sprintf("((%s && (%s %s %s) || !%s && (", is(boundary), f.text(x.X), boundaries[o.token], f.text(x.Y), is(boundary)))
		closed(x, fmt.Sprintf(")) != %s)", is(other)))
	case o.token == token.EQL, o.token == token.NEQ:
		open(x, "((")
		closed(x, fmt.Sprintf(") != %s)", is(other)))
	case binary:
		open(x, fmt.Sprintf("%s(%s, ", arithmetic[o.token], is(other)))
		all = append(all, insertion{at: f.offset(o.at), text: ",", instead: 1})
		closed(x, ")")
	case o.token == token.SUB:
		open(o.node, fmt.Sprintf("mutantNEG(%s, ", is(other)))
		all = append(all, insertion{at: f.offset(o.at), instead: 1})
		closed(o.node, ")")
	case o.inList:
		s := o.node.(*ast.IncDecStmt)
		open(s, fmt.Sprintf("if %s { %s%s } else { ", is(other), f.text(s.X), others[o.token]))
		closed(s, " }")
	default:
		// A statement of a for or an if.
		s := o.node.(*ast.IncDecStmt)
		all = append(all, insertion{
			at: f.offset(o.at), instead: len(o.token.String()),
			text: fmt.Sprintf(" = %s(%s, %s)", arithmetic[o.token], is(other), f.text(s.X)),
		})
	}

	return all
}

func (f *file) offset(p token.Pos) int { return f.set.Position(p).Offset }

func (f *file) start(n ast.Node) int { return f.offset(n.Pos()) }

func (f *file) end(n ast.Node) int { return f.offset(n.End()) }

func (f *file) text(n ast.Node) string { return string(f.source[f.start(n):f.end(n)]) }

func (f *file) insert(all []insertion) []byte {
	slices.SortStableFunc(all, func(a, b insertion) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.order, b.order)) })
	var result []byte
	at := 0
	for _, i := range all {
		// A minus that is dropped stands where what is around it opens.
		result = append(append(result, f.source[at:max(at, i.at)]...), i.text...)
		at = max(at, i.at+i.instead)
	}

	return append(result, f.source[at:]...)
}
