package rules

import (
	"slices"
	"strings"
	"sync"

	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
)

// mentions are the fields of a node that expressions look at: a tree of names. An
// expression that looks at a message or a map as a whole looks at everything in it.
type mentions struct {
	whole bool
	below map[string]*mentions
}

func (m *mentions) add(path []string) {
	for _, name := range path {
		if m.below == nil {
			m.below = make(map[string]*mentions)
		}
		next, ok := m.below[name]
		if !ok {
			next = &mentions{}
			m.below[name] = next
		}
		m = next
	}
	m.whole = true
}

// of adds what an expression looks at.
func (m *mentions) of(x *expression) {
	for _, path := range x.paths {
		m.add(path)
	}
}

// at gives what is mentioned below a field; nil is nothing.
func (m *mentions) at(name string) *mentions {
	if m == nil || m.whole {
		return m
	}
	return m.below[name]
}

// nodePaths gives the paths of what a term looks at in the node.
func nodePaths(e ast.Expr) (paths [][]string) {
	if path, ok := nodePath(e); ok {
		return [][]string{path}
	}
	if e.Kind() == ast.CallKind && e.AsCall().FunctionName() == operators.In {
		args := e.AsCall().Args()
		path, ok := nodePath(args[1])
		if key, literal := literalString(args[0]); ok && literal {
			return [][]string{append(path, key)}
		}
	}
	for _, child := range children(e) {
		paths = append(paths, nodePaths(child)...)
	}
	return paths
}

// layMentions notes what the expressions of a rule look at in the node.
func (c *compiler) layMentions(r *rule) {
	for _, x := range slices.Concat([]*expression{r.match}, r.scope, r.node) {
		x.paths = nodePaths(x.ast.NativeRep().Expr())
	}
}

// nodePath gives the path of a term that is a field in the node: node.a.b, has(node.a.b),
// node.a["b"], node.a[?"b"] and node.a.?b.
func nodePath(e ast.Expr) ([]string, bool) {
	path, _, ok := variablePath(e)
	if !ok || path[0] != varNode {
		return nil, false
	}
	return path[1:], true
}

// variablePath gives the path of a term that is a variable, or a field in one, the variable first. sure is
// false where the term asks whether a field is there, or allows that it is not.
func variablePath(e ast.Expr) (path []string, sure, ok bool) {
	switch e.Kind() {
	case ast.IdentKind:
		return []string{e.AsIdent()}, true, true
	case ast.SelectKind:
		path, sure, ok = variablePath(e.AsSelect().Operand())
		return append(path, e.AsSelect().FieldName()), sure && !e.AsSelect().IsTestOnly(), ok
	case ast.CallKind:
		operand, key, is := indexed(e)
		if !is {
			return nil, false, false
		}
		name, literal := literalString(key)
		if !literal {
			return nil, false, false
		}
		path, sure, ok = variablePath(operand)
		return append(path, name), sure && e.AsCall().FunctionName() == operators.Index, ok
	}
	return nil, false, false
}

// mentioned gives what decides over the clients of a rule, or of [Otherwise]. It is worked
// out when it is first asked for: clients are compared by it as they come.
func (s *Set) mentioned(rule string) *mentions {
	if collect, ok := s.mentions[rule]; ok {
		return collect()
	}
	return &mentions{}
}

// collectLater has the mentions of every rule worked out once each.
func (s *Set) collectLater() {
	s.mentions = map[string]func() *mentions{Otherwise: sync.OnceValue(func() *mentions { return s.collect(Otherwise) })}
	for _, r := range s.rules {
		s.mentions[r.name] = sync.OnceValue(func() *mentions { return s.collect(r.name) })
	}
}

// collect gathers a rule's own expressions, the matches of those before it, and what its
// node fields replace, which no control plane sees.
func (s *Set) collect(rule string) *mentions {
	m := &mentions{}
	for _, r := range s.rules {
		m.of(r.match)
		if r.name != rule {
			continue
		}
		for _, x := range slices.Concat(r.scope, r.node) {
			m.of(x)
		}
		for _, x := range r.node {
			m.add(replaced(x.field))
		}
		return m
	}
	return m
}

// replaced is the path of what a node field replaces.
func replaced(field string) []string {
	path := strings.Split(field, ".")[1:]
	if path[0] == "metadata" {
		return path[:1]
	}
	return path
}
