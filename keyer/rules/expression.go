package rules

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"unicode"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
	"cel.dev/cel-go/interpreter"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// expression is one expression of a rule, compiled. Any goroutine may evaluate it.
type expression struct {
	field  string // as in Problem.Field
	source string
	looks  []string   // the variables that it looks at
	paths  [][]string // what it looks at in the node; of aggregation rules

	ast     *cel.Ast
	program cel.Program
	// partial is program for where the name is not known: its result is unknown if it
	// depends on it. nil if the expression does not look at the name.
	partial cel.Program
	// metered is program for one name of many: it counts what it costs.
	metered func() (cel.Program, error)
}

// newExpression makes an expression of what has been checked. Some errors show only when CEL plans it.
func (c *compiler) newExpression(field, source string, checked *cel.Ast) (*expression, error) {
	x, env := &expression{field: field, source: source, looks: variablesOf(checked), ast: checked}, c.env
	options := []cel.ProgramOption{cel.EvalOptions(cel.OptOptimize), compiledRegexes()}
	if loops(checked) {
		// Everything else takes time in proportion to the node at most. Counting costs
		// doubles the time, so only those are counted that can take more.
		options = append(options, bounded()...)
	}
	var err error
	if x.program, err = env.Program(checked, options...); err != nil {
		return nil, err
	}
	x.metered = sync.OnceValues(func() (cel.Program, error) {
		return env.Program(checked, append(slices.Clip(options), cel.CostTracking(dynamicCost{}))...)
	})
	if x.looksAtName() {
		x.partial, err = env.Program(checked, append(slices.Clip(options), cel.EvalOptions(cel.OptOptimize, cel.OptPartialEval))...)
	}
	return x, err
}

// isNever reports whether an expression is nothing but false.
func (x *expression) isNever() bool {
	return x != nil && x.ast.NativeRep().Expr().Kind() == ast.LiteralKind && x.ast.NativeRep().Expr().AsLiteral() == types.False
}

// loops reports whether an expression walks over lists or maps.
func loops(checked *cel.Ast) bool {
	root := ast.NavigateAST(checked.NativeRep())
	return len(ast.MatchDescendants(root, ast.KindMatcher(ast.ComprehensionKind))) > 0
}

// variablesOf lists the variables that an expression looks at, and not at some of its own that hide them.
// An expression without any is the same for all.
func variablesOf(checked *cel.Ast) (list []string) {
	var found []string
	free(checked.NativeRep().Expr(), nil, func(_ ast.Expr, name string) { found = append(found, name) })
	for _, name := range []string{varNode, varType, varName, varXDSTP, varPeer, varListener, varUpstream} {
		if slices.Contains(found, name) {
			list = append(list, name)
		}
	}
	return list
}

// free finds the names in a term that are not those of variables of loops around them. loops are the latter.
func free(e ast.Expr, loops []string, found func(e ast.Expr, name string)) {
	switch e.Kind() {
	case ast.IdentKind:
		if !slices.Contains(loops, e.AsIdent()) {
			found(e, strings.TrimPrefix(e.AsIdent(), ".")) // with a dot it is none of a loop
		}
	case ast.ComprehensionKind:
		loop := e.AsComprehension()
		result := append(slices.Clip(loops), loop.AccuVar())
		step := append(slices.Clip(result), loop.IterVar(), loop.IterVar2())
		free(loop.IterRange(), loops, found)
		free(loop.AccuInit(), loops, found)
		free(loop.LoopCondition(), step, found)
		free(loop.LoopStep(), step, found)
		free(loop.Result(), result, found)
	default:
		for _, child := range children(e) {
			free(child, loops, found)
		}
	}
}

// looksAt reports whether an expression looks at a variable. One that was wrong is nil, and looks at none.
func (x *expression) looksAt(variable string) bool {
	return x != nil && slices.Contains(x.looks, variable)
}

// looksAtName reports whether an expression looks at the name, or at parts of it.
func (x *expression) looksAtName() bool { return x.looksAt(varName) || x.looksAt(varXDSTP) }

// eval gives the expression's value, which is a *types.Unknown if it depends on the name
// and there is none.
func (x *expression) eval(v *variables) (ref.Val, error) {
	vars, err := x.activation(v)
	if err != nil {
		return nil, err
	}
	program := x.program
	switch {
	case x.open(v):
		program = x.partial
	case v.name == nil:
	case !v.client.effort.begin():
		return nil, errTooMuch
	default:
		if program, err = x.metered(); err != nil {
			return nil, err
		}
	}
	value, details, err := program.Eval(vars)
	if v.name != nil {
		v.client.effort.charge(details.ActualCost())
	}
	if _, cancelled := errors.AsType[interpreter.EvalCancelledError](err); cancelled {
		return nil, errTooMuch
	}
	if err != nil {
		return nil, err
	}
	return value, nil
}

var errTooMuch = errors.New("too much work: the work for one client is limited")

// open reports whether the expression looks at a name that is not given.
func (x *expression) open(v *variables) bool { return v.name == nil && x.looksAtName() }

func (x *expression) activation(v *variables) (cel.Activation, error) {
	if !x.open(v) {
		return v, nil
	}
	return v.nameless()
}

// failed says why the expression has no value for a client.
func (x *expression) failed(rule string, cause error) *FailedError {
	return &FailedError{Rule: rule, Field: x.field, Expression: oneLine(x.source), Cause: readable(cause)}
}

// readable says what CEL calls an overload in words of the rule's author. It keeps what a
// client sent from filling or forging lines of the log: some of CEL's errors cite it.
func readable(cause error) error {
	text := cause.Error()
	if rest, ok := strings.CutPrefix(text, "no such overload"); ok {
		text = "a value has a type that this operation does not accept" + rest
	}
	if text = printable(text); text != cause.Error() {
		return citingError{text, cause}
	}
	return cause
}

func printable(text string) string {
	return keyer.Shorten(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
}

type citingError struct {
	text string
	error
}

func (e citingError) Error() string { return e.text }
func (e citingError) Unwrap() error { return e.error }

// FailedError says that an expression of a rule has no value for a client, which isolates
// it, or refuses it where the policy is to refuse (AGG-2).
type FailedError struct {
	Rule       string
	Field      string // as in [Problem]
	Expression string // in one line, shortened if very long
	Cause      error
}

func (e *FailedError) Error() string {
	return fmt.Sprintf("aggregation rule %q fails: %s: %s: %v", e.Rule, e.Field, e.Expression, e.Cause)
}

// Unwrap gives the cause.
func (e *FailedError) Unwrap() error { return e.Cause }

// oneLine makes a line of an expression that may be several.
func oneLine(source string) string { return keyer.Shorten(strings.Join(strings.Fields(source), " ")) }

// typeError says that a value is of another type than its place asks for: what a node's
// metadata holds shows only when there is a node.
type typeError struct{ got, want string }

func (e typeError) Error() string { return fmt.Sprintf("the value is %s, not %s", e.got, e.want) }

func wrongType(got ref.Val, want string) error {
	return typeError{got: article(got.Type().TypeName()), want: article(want)}
}

// typeWords are CEL's names of types as people know them from JSON.
var typeWords = map[string]string{
	types.NullType.TypeName(): "null", types.DoubleType.TypeName(): "number",
	types.IntType.TypeName(): "whole number", types.UintType.TypeName(): "whole number",
	types.DynType.TypeName(): "value of any type", "google.protobuf.NullValue": "null",
}

func article(typeName string) string {
	word := cmp.Or(typeWords[typeName], typeName)
	switch {
	case word == "null" || word == "bytes":
		return word
	case slices.Contains([]byte("aeiou"), word[0]):
		return "an " + word
	}
	return "a " + word
}
