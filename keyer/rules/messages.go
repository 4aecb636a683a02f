package rules

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

func (x *issue) undefinedField(groups []string) string {
	field := groups[0]
	// The place is the dot's.
	for offset := x.offset; offset >= 0; offset++ {
		if c := x.char(offset); c != '.' && c != '?' && c != ' ' {
			x.offset = offset
			break
		}
	}
	message := fmt.Sprintf("undefined field %q", field)
	e := x.term()
	if e == nil || e.Kind() != ast.SelectKind {
		return message
	}
	if t := x.typeOf(e.AsSelect().Operand()); t != nil {
		names, _ := x.env.CELTypeProvider().FindStructFieldNames(t.TypeName())
		return message + didYouMean(field, names)
	}
	return message
}

// elsewhere are names that other rule languages have for what is a variable here.
var elsewhere = map[string]string{
	"typeurl": varType, "requesttype": varType, "resourcetype": varType, "request": varType,
	"resourcename": varName, "resource": varName, "resources": varName,
	"region": "node.locality.region", "zone": "node.locality.zone", "subzone": "node.locality.sub_zone",
	"identity": varPeer, "tls": varPeer, "spiffeid": "peer.spiffe",
}

// inWords are operators that CEL has no words for.
var inWords = map[string]string{"and": "&&", "or": "||", "not": "!", "AND": "&&", "OR": "||", "NOT": "!", "is": "=="}

func (x *issue) undeclaredReference(groups []string) string {
	name := groups[0]
	switch x.char(x.offset) {
	case '(':
		x.toWord(name)
		return x.unknownFunction(name)
	case '{':
		x.toWord(name)
		return fmt.Sprintf("unknown message type %q", name)
	}
	message := fmt.Sprintf("unknown variable %q", name)
	if hint := x.dashed(); hint != "" {
		return message + hint
	}
	if path := x.variableLike(name); path != "" {
		return message + fmt.Sprintf(", did you mean %q?", path)
	}
	if word := strings.TrimSpace(x.source); bareWord().MatchString(word) {
		// It may well be in quotes in the file, which are the file's.
		return message + fmt.Sprintf(": text needs its own quotes, '%q'", word)
	}
	return message + fmt.Sprintf(": text needs quotes, %q", name)
}

func (x *issue) unknownFunction(name string) string {
	message := fmt.Sprintf("unknown function %q", name)
	if operator, ok := inWords[name]; ok {
		return message + fmt.Sprintf(": it is written %s", operator)
	}
	if slices.Contains(timeFunctions, name) {
		return message + ": rules cannot use time"
	}
	names := slices.Collect(maps.Keys(x.env.Functions()))
	for _, macro := range x.env.Macros() {
		names = append(names, macro.Function())
	}
	names = slices.DeleteFunc(names, func(n string) bool { return strings.ContainsAny(n, "_@!?-") && n != "exists_one" })
	return message + didYouMean(name, names)
}

// variableLike finds what somebody meant who wrote name: a variable, one of a client's
// fields, with dashes or without what it is a field of.
func (x *issue) variableLike(name string) string {
	plain := plainName(name)
	if path, ok := elsewhere[plain]; ok {
		return path
	}
	paths := make(map[string]string) // by plain name
	for _, of := range []struct{ variable, typeName string }{
		{varPeer, identityType},
		{"node.locality", "envoy.config.core.v3.Locality"},
		{varNode, "envoy.config.core.v3.Node"},
	} {
		fields, _ := x.env.CELTypeProvider().FindStructFieldNames(of.typeName)
		for _, field := range fields {
			path := of.variable + "." + field
			paths[plainName(field)], paths[plainName(path)] = path, path
		}
	}
	if path, ok := paths[plain]; ok {
		return path
	}
	variables := []string{varNode, varType, varName, varPeer, varUpstream, varListener}
	for _, v := range x.env.Variables() {
		if v.Value() != nil {
			variables = append(variables, v.Name())
		}
	}
	return closest(name, variables)
}

func plainName(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", ".", "", "-", "").Replace(name))
}

var bareWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\w+(-\w+)*$`) })

var dashedKey = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(node\.metadata(?:\.\w+)*?)\.(\w+(?:-\w+)+)`) })

// dashed notices keys of metadata that CEL reads as a subtraction.
func (x *issue) dashed() string {
	for _, at := range dashedKey().FindAllStringSubmatchIndex(x.source, -1) {
		start, end := len([]rune(x.source[:at[0]])), len([]rune(x.source[:at[1]]))
		if start <= x.offset && x.offset <= end {
			return fmt.Sprintf(": a key with a dash is written %s[%q]", x.source[at[2]:at[3]], x.source[at[4]:at[5]])
		}
	}
	return ""
}

func (x *issue) noOverload(groups []string) string {
	name, signature := groups[0], groups[1]
	if symbol, ok := operators.FindReverse(name); ok || name == operators.In {
		if name == operators.In {
			symbol = "in"
		}
		return x.noOperator(symbol, splitTypes(strings.TrimSuffix(strings.TrimPrefix(signature, "("), ")")))
	}
	x.toWord(name)
	message := fmt.Sprintf("%s does not take %s", name, signature)
	if takes := x.signatures(name); takes != "" {
		message += ", but " + takes
	}
	return message
}

// noOperator says that an operator does not accept what stands around it.
func (x *issue) noOperator(symbol string, operands []string) string {
	around := make([]string, len(operands))
	for i, t := range operands {
		around[i] = article(t)
	}
	message := fmt.Sprintf("%q does not accept %s", symbol, strings.Join(around, " and "))
	switch {
	case x.dashed() != "":
		return message + x.dashed()
	case symbol == "in":
		return message + ": the right side must be a list or a map"
	case slices.ContainsFunc(operands, func(t string) bool { return strings.HasPrefix(t, "optional_type") }):
		return message + `: give a default with .orValue("")`
	case slices.Contains(operands, "null"):
		return message + `: a field that is not set is "", 0 or empty, not null`
	}
	return message
}

// splitTypes cuts a list of types at its commas, but not at those inside of a type.
func splitTypes(list string) []string {
	var types []string
	depth, start := 0, 0
	for i, r := range list {
		switch {
		case r == '(':
			depth++
		case r == ')':
			depth--
		case r == ',' && depth == 0:
			types, start = append(types, strings.TrimSpace(list[start:i])), i+1
		}
	}
	return append(types, strings.TrimSpace(list[start:]))
}

// signatures lists how a function can be called.
func (x *issue) signatures(name string) string {
	f, ok := x.env.Functions()[name]
	if !ok {
		return ""
	}
	var list []string
	for _, o := range f.OverloadDecls() {
		args := make([]string, 0, len(o.ArgTypes()))
		for _, t := range o.ArgTypes() {
			args = append(args, cel.FormatCELType(t))
		}
		if o.IsMemberFunction() {
			list = append(list, fmt.Sprintf("%s.(%s)", args[0], strings.Join(args[1:], ", ")))
		} else {
			list = append(list, fmt.Sprintf("(%s)", strings.Join(args, ", ")))
		}
	}
	const enough = 4
	if len(list) > enough {
		return ""
	}
	return strings.Join(list, " or ")
}

func (x *issue) wrongOperand(groups []string) string {
	x.toStart()
	return fmt.Sprintf("this is %s, it must be %s", article(groups[1]), article(groups[0]))
}

func (x *issue) noFields(groups []string) string { return article(groups[0]) + " has no fields" }

func (x *issue) notForHas([]string) string {
	return `has() takes a field, as in has(node.metadata.role); for a key in quotes use "role" in node.metadata`
}

func (x *issue) noRange(groups []string) string {
	x.toStart()
	return fmt.Sprintf("this is %s, but a loop needs a list or a map", article(groups[0]))
}

func (x *issue) tooManyLoops([]string) string {
	return fmt.Sprintf("more than %d nested all, exists, map or filter", maxComprehensions)
}

func (x *issue) tooDeep([]string) string {
	x.offset = -1
	return fmt.Sprintf("nested deeper than %d levels", maxDepth)
}
