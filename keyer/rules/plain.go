package rules

import (
	"slices"
	"strings"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	structpb "google.golang.org/protobuf/types/known/structpb"
)

// plain are the parts of a match that need no CEL: comparisons of texts, and what connects them. Most
// rules are not for most clients, and say so in such a part. To evaluate an expression takes some
// hundred times as long, which each stream would pay for each rule and type.
//
// A part is true, false, or left open. Where the parts that are not open decide, CEL gives the same
// result: "&&" is false if either side is, and "||" true, whatever the other side is, an error included.
// Otherwise the expression is evaluated.
type plain func(v *variables) truth

// maxPlainText bounds the texts that are compared. CEL counts the work that longer ones take (OPS-5).
const maxPlainText = 1 << 10

type truth int8

const (
	leftOpen truth = iota
	isFalse
	isTrue
)

func truthOf(is bool) truth {
	if is {
		return isTrue
	}
	return isFalse
}

// text is a text of a client, a type or a name. It is not known if it depends on a name that is not given,
// if CEL would fail, or if it is no text.
type text func(v *variables) (s string, known bool)

// plainOf finds the plain parts of a match; nil if there are none. What walks over lists has none: CEL counts
// what it takes, and may give up.
func plainOf(checked *cel.Ast) plain {
	if loops(checked) {
		return nil
	}
	return plainReader{checked}.condition(checked.NativeRep().Expr())
}

type plainReader struct{ checked *cel.Ast }

// condition gives the plain parts of a term.
func (p plainReader) condition(e ast.Expr) plain {
	if e.Kind() == ast.LiteralKind {
		if is, ok := e.AsLiteral().(types.Bool); ok {
			return func(*variables) truth { return truthOf(bool(is)) }
		}
		return nil
	}
	if e.Kind() != ast.CallKind {
		return nil
	}
	call := e.AsCall()
	args := call.Args()
	if call.IsMemberFunction() {
		args = append([]ast.Expr{call.Target()}, args...)
	}
	switch f := call.FunctionName(); f {
	case operators.LogicalNot:
		return negation(p.condition(args[0]))
	case operators.LogicalAnd:
		return p.connect(args, isFalse)
	case operators.LogicalOr:
		return p.connect(args, isTrue)
	case operators.Equals:
		return p.compare(args, func(a, b string) bool { return a == b })
	case operators.NotEquals:
		return p.compare(args, func(a, b string) bool { return a != b })
	case operators.In:
		return p.among(args)
	case "startsWith":
		return p.compare(args, strings.HasPrefix)
	case "endsWith":
		return p.compare(args, strings.HasSuffix)
	case "contains":
		return p.compare(args, strings.Contains)
	}
	return nil
}

func negation(of plain) plain {
	if of == nil {
		return nil
	}
	return func(v *variables) truth {
		switch of(v) {
		case isTrue:
			return isFalse
		case isFalse:
			return isTrue
		default:
			return leftOpen
		}
	}
}

// connect is "&&", which one side that is false decides, or "||", which one that is true decides.
func (p plainReader) connect(args []ast.Expr, decides truth) plain {
	var sides []plain
	for _, arg := range args {
		if side := p.condition(arg); side != nil {
			sides = append(sides, side)
		}
	}
	if len(sides) == 0 {
		return nil
	}
	all := len(sides) == len(args)
	return func(v *variables) truth {
		known := all
		for _, side := range sides {
			switch side(v) {
			case decides:
				return decides
			case leftOpen:
				known = false
			}
		}
		switch {
		case !known:
			return leftOpen
		case decides == isTrue:
			return isFalse
		}
		return isTrue
	}
}

func (p plainReader) compare(args []ast.Expr, holds func(a, b string) bool) plain {
	if len(args) != 2 {
		return nil
	}
	a, b := p.text(args[0]), p.text(args[1])
	if a == nil || b == nil {
		return nil
	}
	return func(v *variables) truth {
		x, known := a(v)
		if !known {
			return leftOpen
		}
		y, known := b(v)
		if !known || len(x)+len(y) > maxPlainText {
			return leftOpen
		}
		return truthOf(holds(x, y))
	}
}

// among is "in" with a list of literals.
func (p plainReader) among(args []ast.Expr) plain {
	a := p.text(args[0])
	if a == nil || args[1].Kind() != ast.ListKind {
		return nil
	}
	var list []string
	for _, e := range args[1].AsList().Elements() {
		s, ok := p.literal(e)
		if !ok {
			return nil
		}
		list = append(list, s)
	}
	return func(v *variables) truth {
		x, known := a(v)
		if !known || len(x) > maxPlainText {
			return leftOpen
		}
		return truthOf(slices.Contains(list, x))
	}
}

// literal gives a text that is the same for all: short names of types are constants.
func (p plainReader) literal(e ast.Expr) (string, bool) {
	if s, ok := literalString(e); ok {
		return s, true
	}
	if e.Kind() != ast.IdentKind {
		return "", false
	}
	reference := p.checked.NativeRep().ReferenceMap()[e.ID()]
	if reference == nil || reference.Value == nil {
		return "", false
	}
	s, ok := reference.Value.(types.String)
	return string(s), ok
}

// text gives a term that is a text; nil if it is none that can be had without CEL.
func (p plainReader) text(e ast.Expr) text {
	if s, ok := p.literal(e); ok {
		return func(*variables) (string, bool) { return s, true }
	}
	root, path := fieldPath(e)
	switch {
	case root == varNode:
		return nodeText(path)
	case root == varPeer:
		return peerText(path)
	case len(path) > 0:
		return nil
	}
	switch root {
	case varType:
		return func(v *variables) (string, bool) { return v.typeURL, true }
	case varListener:
		return func(v *variables) (string, bool) { return v.client.peer.Through(), true }
	case varUpstream:
		return func(v *variables) (string, bool) { return v.client.set.upstream, true }
	case varName:
		return func(v *variables) (string, bool) {
			if v.name == nil {
				return "", false
			}
			return *v.name, true
		}
	}
	return nil
}

// fieldPath takes a term like node.locality.zone apart; "" if it is none.
func fieldPath(e ast.Expr) (root string, path []string) {
	switch e.Kind() {
	case ast.IdentKind:
		return e.AsIdent(), nil
	case ast.SelectKind:
		s := e.AsSelect()
		if root, path = fieldPath(s.Operand()); root == "" || s.IsTestOnly() {
			return "", nil
		}
		return root, append(path, s.FieldName())
	}
	return "", nil
}

// nodeText gives a field of the node. Without a node CEL fails.
func nodeText(path []string) text {
	of := func(get func(c *Subject) string) text {
		return func(v *variables) (string, bool) {
			if v.client.node == nil {
				return "", false
			}
			return get(v.client), true
		}
	}
	if len(path) == 2 && path[0] == "metadata" {
		return metadataText(path[1])
	}
	switch strings.Join(path, ".") {
	case "id":
		return of(func(c *Subject) string { return c.node.GetId() })
	case "cluster":
		return of(func(c *Subject) string { return c.node.GetCluster() })
	case "locality.region":
		return of(func(c *Subject) string { return c.node.GetLocality().GetRegion() })
	case "locality.zone":
		return of(func(c *Subject) string { return c.node.GetLocality().GetZone() })
	case "locality.sub_zone":
		return of(func(c *Subject) string { return c.node.GetLocality().GetSubZone() })
	}
	return nil
}

// metadataText gives a key of the metadata. If it is missing, CEL fails.
func metadataText(key string) text {
	return func(v *variables) (string, bool) {
		value, ok := v.client.node.GetMetadata().GetFields()[key].GetKind().(*structpb.Value_StringValue)
		if !ok {
			return "", false
		}
		return value.StringValue, true
	}
}

// peerText gives a field of the identity. It is the same as that of newIdentity.
func peerText(path []string) text {
	of := func(get func(c *Subject) string) text {
		return func(v *variables) (string, bool) { return get(v.client), true }
	}
	switch strings.Join(path, ".") {
	case "spiffe":
		return of(func(c *Subject) string { return c.peer.SPIFFE })
	case "trust_domain":
		return of(func(c *Subject) string {
			domain, _ := c.peer.SPIFFEParts()
			return domain
		})
	case "spiffe_path":
		return of(func(c *Subject) string {
			_, path := c.peer.SPIFFEParts()
			return path
		})
	case "subject":
		return of(func(c *Subject) string { return c.peer.Subject })
	}
	return nil
}
