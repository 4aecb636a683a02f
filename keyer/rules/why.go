package rules

import (
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// why says which terms of an expression made it true or false, and what they came to, as
// in
//
//	node.metadata.role == "sidecar" is false: node.metadata.role is "web"
func (x *expression) why(v *variables) string {
	env, err := environment()
	if err != nil {
		return err.Error()
	}
	options := append(bounded(), cel.EvalOptions(cel.OptTrackState, cel.OptPartialEval), compiledRegexes())
	program, err := env.Program(x.ast, options...)
	if err != nil {
		return err.Error()
	}
	vars, err := x.activation(v)
	if err != nil {
		return err.Error()
	}
	_, details, err := program.Eval(vars)
	if err != nil {
		return err.Error()
	}
	w := &reason{ast: x.ast.NativeRep(), values: details.State()}
	w.term(w.ast.Expr())
	return strings.Join(w.lines, "; ")
}

// reason collects what was decisive in one evaluation.
type reason struct {
	ast    *ast.AST
	values interpreter.EvalState
	lines  []string
}

// term goes down to the terms that decided. Of a false conjunction, and a true
// disjunction, one operand is enough.
func (w *reason) term(e ast.Expr) {
	if e.Kind() == ast.CallKind {
		args := e.AsCall().Args()
		switch e.AsCall().FunctionName() {
		case operators.LogicalAnd:
			w.operands(e, args, types.False)
			return
		case operators.LogicalOr:
			w.operands(e, args, types.True)
			return
		case operators.LogicalNot:
			if connects(args[0]) {
				w.term(args[0])
			} else {
				w.leaf(e)
			}
			return
		case operators.Conditional:
			w.term(args[0])
			if condition, _ := w.values.Value(args[0].ID()); condition == types.True {
				w.term(args[1])
			} else {
				w.term(args[2])
			}
			return
		}
	}
	w.leaf(e)
}

// connects reports whether a term is made of others that are true or false.
func connects(e ast.Expr) bool {
	return e.Kind() == ast.CallKind && slices.Contains([]string{
		operators.LogicalAnd, operators.LogicalOr, operators.LogicalNot, operators.Conditional,
	}, e.AsCall().FunctionName())
}

// operands explains the one operand that decides by itself, or all.
func (w *reason) operands(e ast.Expr, args []ast.Expr, decisive ref.Val) {
	if result, _ := w.values.Value(e.ID()); result == decisive {
		for _, arg := range args {
			if value, ok := w.values.Value(arg.ID()); ok && value == decisive {
				w.term(arg)
				return
			}
		}
	}
	for _, arg := range args {
		w.term(arg)
	}
}

// leaf shows a term that is true or false, and what it looked at.
func (w *reason) leaf(e ast.Expr) {
	value, ok := w.values.Value(e.ID())
	if !ok {
		return
	}
	line := fmt.Sprintf("%s is %s", w.text(e), shownValue(value))
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.LogicalNot {
		e = e.AsCall().Args()[0] // that it is the opposite goes without saying
	}
	if seen := w.seen(e); len(seen) > 0 {
		line += ": " + strings.Join(seen, ", ")
	}
	w.lines = append(w.lines, line)
}

// seen lists the values of the variables' fields, and of what functions made of them,
// that a term looked at.
func (w *reason) seen(root ast.Expr) []string {
	var seen []string
	told := make(map[string]bool)
	var visit func(e ast.Expr)
	visit = func(e ast.Expr) {
		if e.ID() != root.ID() && (isPath(e) || e.Kind() == ast.CallKind) {
			if value, ok := w.values.Value(e.ID()); ok && !w.isConstant(e) {
				if line := w.text(e) + " is " + w.shown(e, value); !told[line] {
					told[line], seen = true, append(seen, line)
				}
			}
		}
		switch {
		case isPath(e):
		case e.Kind() == ast.ComprehensionKind: // what is in a loop had as many values as it had turns
			visit(e.AsComprehension().IterRange())
		default:
			for _, child := range children(e) {
				visit(child)
			}
		}
	}
	visit(root)
	return seen
}

// isConstant reports whether an identifier is a short name of a type, which is as good as
// its value.
func (w *reason) isConstant(e ast.Expr) bool {
	reference, ok := w.ast.ReferenceMap()[e.ID()]
	return ok && reference.Value != nil
}

func (w *reason) shown(e ast.Expr, value ref.Val) string {
	if text, ok := value.(types.String); ok && e.Kind() == ast.IdentKind && e.AsIdent() == varType {
		if short := keyer.ShortName(string(text)); short != string(text) {
			return short
		}
	}
	return shownValue(value)
}

func shownValue(value ref.Val) string {
	switch v := value.(type) {
	case *types.Unknown:
		return "not known"
	case *types.Err:
		return printable(v.Error())
	}
	text, err := appendValue(nil, value, 0)
	if err != nil {
		return err.Error()
	}
	const most = 100
	if len(text) > most {
		return strings.ToValidUTF8(string(text[:most]), "") + "…"
	}
	return string(text)
}

func (w *reason) text(e ast.Expr) string {
	text, err := cel.ExprToString(e, w.ast.SourceInfo())
	if err != nil {
		return err.Error()
	}
	return oneLine(text)
}

// isPath reports whether a term is a variable or something in it, found by names and
// numbers only. Those have a value as a whole, not step by step.
func isPath(e ast.Expr) bool {
	switch e.Kind() {
	case ast.IdentKind:
		return true
	case ast.SelectKind:
		return isPath(e.AsSelect().Operand())
	case ast.CallKind:
		if operand, key, ok := indexed(e); ok {
			return isPath(operand) && key.Kind() == ast.LiteralKind
		}
	}
	return false
}

// indexed takes apart the ways to look into a map or a list by a key, and optional
// selections.
func indexed(e ast.Expr) (operand, key ast.Expr, ok bool) {
	if e.Kind() != ast.CallKind {
		return nil, nil, false
	}
	switch call := e.AsCall(); call.FunctionName() {
	case operators.Index, operators.OptIndex, operators.OptSelect:
		return call.Args()[0], call.Args()[1], true
	}
	return nil, nil, false
}

// children are the terms of a term.
func children(e ast.Expr) []ast.Expr {
	var list []ast.Expr
	switch e.Kind() {
	case ast.CallKind:
		call := e.AsCall()
		if call.IsMemberFunction() {
			list = append(list, call.Target())
		}
		return append(list, call.Args()...)
	case ast.SelectKind:
		return []ast.Expr{e.AsSelect().Operand()}
	case ast.ListKind:
		return e.AsList().Elements()
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			list = append(list, entry.AsMapEntry().Key(), entry.AsMapEntry().Value())
		}
	case ast.StructKind:
		for _, field := range e.AsStruct().Fields() {
			list = append(list, field.AsStructField().Value())
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		return []ast.Expr{loop.IterRange(), loop.AccuInit(), loop.LoopCondition(), loop.LoopStep(), loop.Result()}
	}
	return list
}
