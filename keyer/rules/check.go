package rules

import (
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/types/ref"
)

// check refuses what compiles and cannot be meant.
func (c *compiler) check(i int, field, source string, checked *cel.Ast) bool {
	before := len(c.problems)
	c.resultType(i, field, source, checked.OutputType())
	return len(c.problems) == before
}

// resultType checks what a field takes. A value whose type shows only when there is a
// node, such as metadata, is checked when it is evaluated.
func (c *compiler) resultType(i int, field, source string, got *cel.Type) {
	if got.IsExactType(cel.DynType) {
		return
	}
	shown := cel.FormatCELType(got)
	switch {
	case field == fieldMatch:
		if !got.IsExactType(cel.BoolType) {
			c.problem(i, field, "%s is %s, it has to be true or false (bool)", oneLine(source), article(shown))
		}
	case strings.HasPrefix(field, fieldScope), strings.HasPrefix(field, fieldMetadata):
	case !got.IsExactType(cel.StringType):
		c.problem(i, field, "%s is %s, it has to be a string", oneLine(source), article(shown))
	}
}

// isLiteral reports whether an expression is nothing but this value.
func isLiteral(x *expression, value ref.Val) bool {
	if x == nil {
		return false
	}
	root := x.ast.NativeRep().Expr()
	return root.Kind() == ast.LiteralKind && root.AsLiteral() == value
}
