package rules

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// checker looks for what compiles and cannot be meant, in one expression.
type checker struct {
	*compiler

	rule          int
	field, source string
	ast           *ast.AST
}

// check notes what an expression's author cannot have meant, and reports whether there is
// nothing.
func (c *compiler) check(i int, field, source string, checked *cel.Ast) bool {
	before := len(c.problems)
	k := &checker{compiler: c, rule: i, field: field, source: source, ast: checked.NativeRep()}
	k.result(checked.OutputType())
	if len(c.problems) == before {
		k.constant(checked)
	}
	ast.PreOrderVisit(k.ast.Expr(), ast.NewExprVisitor(k.visit))
	free(k.ast.Expr(), nil, k.misplaced)
	return len(c.problems) == before
}

func (k *checker) visit(e ast.Expr) {
	switch e.Kind() {
	case ast.CallKind:
		k.call(e)
	case ast.ComprehensionKind:
		k.hidden(e)
	case ast.SelectKind:
		k.selected(e)
	case ast.LiteralKind:
		k.configured(e)
	}
}

// misplaced refuses variables that are for other rules: in requirements those that say what a client
// asks for, since a client is verified before it asks, and in aggregation rules the parts of xdstp names,
// which they never see.
func (k *checker) misplaced(e ast.Expr, name string) {
	switch {
	case k.field == fieldRequire && slices.Contains([]string{varType, varName, varXDSTP, varUpstream}, name):
		k.problemAt(e, "%q is not known yet when a client is verified: use node, peer and listener only", name)
	case name == varXDSTP && !k.access:
		k.problemAt(e, "%q is for access rules only: all clients share xdstp names", name)
	}
}

// configured refuses xdstp names with context keys that the relay's own configuration
// must not use (NAME-7).
func (k *checker) configured(e ast.Expr) {
	text, _ := literalString(e)
	if bad, ok := errors.AsType[*keyer.NameError](keyer.CheckConfigured(text)); ok {
		k.problemAt(e, "%s", bad.Reason)
	}
}

// problemAt notes a problem at a term.
func (k *checker) problemAt(e ast.Expr, format string, args ...any) {
	offset, ok := offsetOfID(k.ast, e.ID())
	if !ok {
		offset = -1
	}
	k.at(k.rule, k.field, k.source, offset, fmt.Sprintf(format, args...))
}

// result checks the type that a field takes. A value whose type shows only when there is a
// node, such as metadata, is checked when it is evaluated.
func (k *checker) result(got *cel.Type) {
	if got.IsExactType(cel.DynType) {
		return
	}
	switch {
	case strings.HasPrefix(k.field, fieldScope):
	case strings.HasPrefix(k.field, fieldMetadata):
		if notJSON(got) {
			k.problem(k.rule, k.field, "%s is %s, but %v", oneLine(k.source), article(cel.FormatCELType(got)), errNotJSON)
		}
	case k.field == fieldMatch, k.field == fieldRequire:
		k.single(got, cel.BoolType, "true or false (bool)", "false")
	default:
		k.single(got, cel.StringType, "a string", `""`)
	}
}

// single checks that a value is of one type. empty is one of that type, which an optional
// value could have in place of none.
func (k *checker) single(got, want *cel.Type, what, empty string) {
	switch {
	case got.IsExactType(want):
	case got.Kind() == types.OpaqueKind && got.TypeName() == "optional_type":
		k.problem(k.rule, k.field, `%s may have no value: give a default with .orValue(%s)`, oneLine(k.source), empty)
	default:
		k.problem(k.rule, k.field, "%s is %s, it must be %s", oneLine(k.source), article(cel.FormatCELType(got)), what)
	}
}

// notJSON reports whether values of a type never are what JSON has.
func notJSON(t *cel.Type) bool {
	if t.Kind() == types.TypeKind {
		return true
	}
	inside := t.Parameters()
	if t.Kind() == types.MapKind && !inside[0].IsExactType(cel.StringType) && !inside[0].IsExactType(cel.DynType) {
		return true
	}
	return slices.ContainsFunc(inside, notJSON)
}

// constant refuses matches and parts of scopes that look at nothing: they are the same for
// every client, so they are written for nothing or, far more often, by mistake. A match
// that is just true or false is meant.
func (k *checker) constant(checked *cel.Ast) {
	if len(variablesOf(checked)) > 0 {
		return
	}
	root := k.ast.Expr()
	switch {
	case k.field == fieldMatch:
		if root.Kind() != ast.LiteralKind {
			k.problem(k.rule, k.field, "%s does not depend on the client: it is the same for all clients", oneLine(k.source))
		}
	case k.field == fieldRequire:
		k.problem(k.rule, k.field, "%s does not depend on the client: it is the same for all clients", oneLine(k.source))
	case strings.HasPrefix(k.field, fieldScope):
		message := fmt.Sprintf("%s does not depend on the client: it is the same for all clients", oneLine(k.source))
		if text, ok := literalString(root); ok && k.compiles(text) {
			message += fmt.Sprintf("; without the quotes, %s is an expression", text)
		}
		k.problem(k.rule, k.field, "%s", message)
	}
}

func (k *checker) compiles(source string) bool {
	checked, issues := k.env.Compile(source)
	return issues.Err() == nil && len(variablesOf(checked)) > 0
}

// hidden refuses variables of loops that have the name of one that there is already: who
// reads the rule would take one for the other. Rules that do not have xdstp may call one of theirs so.
func (k *checker) hidden(e ast.Expr) {
	loop := e.AsComprehension()
	for _, name := range []string{loop.IterVar(), loop.IterVar2(), loop.AccuVar()} {
		for _, v := range k.env.Variables() {
			if v.Name() == name && (name != varXDSTP || k.access) {
				k.problemAt(e, "%q is already a variable, use another name for the loop variable", name)
				return
			}
		}
	}
}

// wrapperFields are how protobuf's own types hold the values of metadata, which CEL gives
// as they are.
var wrapperFields = map[string]bool{
	"string_value": true, "number_value": true, "bool_value": true, "struct_value": true, "list_value": true, "null_value": true,
}

func (k *checker) selected(e ast.Expr) {
	field := e.AsSelect().FieldName()
	if wrapperFields[field] && k.ast.GetType(e.AsSelect().Operand().ID()).IsExactType(cel.DynType) {
		k.problemAt(e, "%s does not exist in expressions: use metadata directly, as in node.metadata.role", field)
	}
}

func literalString(e ast.Expr) (string, bool) {
	if e.Kind() != ast.LiteralKind {
		return "", false
	}
	text, ok := e.AsLiteral().(types.String)
	return string(text), ok
}
