package rules

import (
	"regexp"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
)

// maxPlainDepth bounds the stack that a plain term takes: it is evaluated on that of a stream, which
// lives long.
const maxPlainDepth = 8

// plainOf reads an expression; nil if only CEL can say anything of it. What loops is left to CEL as a
// whole: there is a limit to its work, at which it fails (OPS-5).
func plainOf(checked *cel.Ast) *plain {
	if loops(checked) {
		return nil
	}
	p := plainReader{checked.NativeRep()}.term(checked.NativeRep().Expr(), maxPlainDepth)
	if p.does == onlyCEL {
		return nil
	}
	return p
}

type plainReader struct{ ast *ast.AST }

// comparisons are the operations that have two texts.
var comparisons = map[string]operation{
	operators.Equals: equal, operators.NotEquals: equal, "startsWith": prefix, "endsWith": suffix, "contains": within,
}

// term reads a term that is true or false.
func (r plainReader) term(e ast.Expr, depth int) *plain {
	switch {
	case depth == 0:
	case e.Kind() == ast.LiteralKind && e.AsLiteral() == types.True:
		return &plain{does: always}
	case e.Kind() == ast.LiteralKind && e.AsLiteral() == types.False:
		return &plain{does: never}
	case e.Kind() == ast.SelectKind && e.AsSelect().IsTestOnly():
		path, is := selected(e.AsSelect().Operand())
		if key, metadata := metadataPath(append(path, e.AsSelect().FieldName())); is && metadata {
			return &plain{does: hasKey, path: key}
		}
	case e.Kind() == ast.CallKind:
		if p := r.call(e, depth); p != nil {
			return p
		}
	}
	return &plain{does: onlyCEL}
}

// call reads a call; nil if only CEL knows the function.
func (r plainReader) call(e ast.Expr, depth int) *plain {
	args := children(e) // what it is called on is the first
	switch f := e.AsCall().FunctionName(); f {
	case operators.LogicalAnd:
		return &plain{does: allOf, terms: r.terms(args, operators.LogicalAnd, depth)}
	case operators.LogicalOr:
		return &plain{does: anyOf, terms: r.terms(args, operators.LogicalOr, depth)}
	case operators.LogicalNot:
		return &plain{does: not, terms: r.terms(args, "", depth)}
	case operators.In:
		return r.in(args[0], args[1])
	case "matches":
		return r.matching(args)
	default:
		does, is := comparisons[f]
		if !is || len(args) != 2 {
			return nil
		}
		of, known := r.text(args[0], depth)
		with, and := r.text(args[1], depth)
		if !known || !and {
			return nil
		}
		p := &plain{does: does, of: of, with: []text{with}}
		if f == operators.NotEquals {
			return &plain{does: not, terms: []*plain{p}}
		}
		return p
	}
}

// terms reads the terms of a conjunction or disjunction, those of one in it among them.
func (r plainReader) terms(args []ast.Expr, function string, depth int) (list []*plain) {
	for _, arg := range args {
		if arg.Kind() == ast.CallKind && arg.AsCall().FunctionName() == function {
			list = append(list, r.terms(children(arg), function, depth)...)
			continue
		}
		list = append(list, r.term(arg, depth-1))
	}
	return list
}

// in reads the search for a text in a list, of the rule or of the client.
func (r plainReader) in(element, in ast.Expr) *plain {
	of, known := r.text(element, maxPlainDepth)
	if !known {
		return nil
	}
	if in.Kind() != ast.ListKind {
		path, is := selected(in)
		if list := lists[strings.Join(path, ".")]; is && list != noList {
			return &plain{does: inList, of: of, list: list}
		}
		return nil
	}
	p := &plain{does: equal, of: of}
	for _, e := range in.AsList().Elements() {
		with, is := r.text(e, maxPlainDepth)
		if !is || with.from != fromRule {
			return nil
		}
		p.with = append(p.with, with)
	}
	if len(p.with) == 0 || len(in.AsList().OptionalIndices()) > 0 {
		return nil
	}
	return p
}

func (r plainReader) matching(args []ast.Expr) *plain {
	of, known := r.text(args[0], maxPlainDepth)
	pattern, literal := literalString(args[1])
	re, err := regexp.Compile(pattern)
	if !known || !literal || err != nil {
		return nil
	}
	return &plain{does: matching, of: of, re: re}
}

// text reads a term that is a text, or may be one: of metadata that shows only with a client.
func (r plainReader) text(e ast.Expr, depth int) (text, bool) {
	if literal, is := literalString(e); is {
		return text{literal: literal}, true
	}
	if reference := r.ast.ReferenceMap()[e.ID()]; reference != nil && reference.Value != nil {
		constant, is := reference.Value.(types.String)
		return text{literal: string(constant)}, is
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.Add && depth > 0 {
		joined := text{from: fromParts}
		for _, arg := range e.AsCall().Args() {
			part, is := r.text(arg, depth-1)
			if !is {
				return text{}, false
			}
			joined.parts = append(joined.parts, part)
		}
		return joined, true
	}
	path, is := selected(e)
	if !is {
		return text{}, false
	}
	if key, metadata := metadataPath(path); metadata {
		return text{from: fromMetadata, path: key}, true
	}
	return variableText(path)
}

// variableText is a text that is no metadata.
func variableText(path []string) (text, bool) {
	switch joined := strings.Join(path, "."); joined {
	case varType:
		return text{from: fromType}, true
	case varName:
		return text{from: fromName}, true
	case varListener:
		return text{from: fromListener}, true
	case varXDSTP + ".authority", varXDSTP + ".type", varXDSTP + ".id":
		return text{from: fromXDSTP}, true
	default:
		from := origins[joined]
		return text{from: from}, from != fromRule
	}
}

// metadataPath gives the part of a path that is in the node's metadata.
func metadataPath(path []string) (key []string, is bool) {
	if len(path) < 3 || path[0] != varNode || path[1] != pathMetadata {
		return nil, false
	}
	return path[2:], true
}

// selected gives the path of a term that is a variable, or something in one: node.a.b or
// node.metadata["b"]. What may be absent is none.
func selected(e ast.Expr) (path []string, is bool) {
	path, sure, is := variablePath(e)
	return path, is && sure
}
