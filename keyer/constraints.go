package keyer

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/protobuf/proto"
)

// Bounds of dynamic parameter constraints: they are part of a key, and are matched
// against every subscription to their name.
const (
	maxConstraintDepth = 32
	maxConstraintBytes = 16 << 10
)

// Constraints are the dynamic parameter constraints of one variant of a resource
// (DYN-1), compiled. They are immutable. A nil *Constraints matches everything.
type Constraints struct {
	key  string
	root condition
}

// ParseConstraints compiles an encoded DynamicParameterConstraints. What matches
// everything, such as a message without fields, is nil. The error says what is wrong:
// malformed, more than 16 KiB, nested deeper than 32 levels, or a constraint that does
// not say what is required of its key.
func ParseConstraints(encoded []byte) (*Constraints, error) {
	if len(encoded) > maxConstraintBytes {
		return nil, fmt.Errorf("dynamic parameter constraints of %d bytes, at most %d are taken", len(encoded), maxConstraintBytes)
	}
	p := new(discoveryv3.DynamicParameterConstraints)
	if err := proto.Unmarshal(encoded, p); err != nil {
		return nil, errors.New("malformed dynamic parameter constraints")
	}
	root, err := compile(p, 0)
	if err != nil {
		return nil, err
	}
	if all, ok := root.(every); ok && len(all) == 0 {
		return nil, nil
	}
	return &Constraints{key: spell(root), root: root}, nil
}

// Key is the canonical form: equal exactly for the same tree of constraints, whatever
// the order of lists, repetitions in them, and lists within lists of the same kind.
func (c *Constraints) Key() string {
	if c == nil {
		return ""
	}
	return c.key
}

// Match reports whether a subscription with these parameters is for the variant.
// Parameters that have no constraint never prevent that.
func (c *Constraints) Match(parameters map[string]string) bool {
	return c == nil || c.root.match(parameters)
}

// condition is a constraint of any kind.
type condition interface {
	match(parameters map[string]string) bool
	spell(b *strings.Builder)
}

type (
	equals struct{ key, value string }
	exists struct{ key string }
	not    struct{ condition }
	every  []condition // sorted by spelling, each once; none of them is an every
	some   []condition // likewise
)

func (c equals) match(p map[string]string) bool {
	value, ok := p[c.key]
	return ok && value == c.value
}

func (c exists) match(p map[string]string) bool {
	_, ok := p[c.key]
	return ok
}

func (c not) match(p map[string]string) bool { return !c.condition.match(p) }

func (c every) match(p map[string]string) bool {
	return !slices.ContainsFunc(c, func(o condition) bool { return !o.match(p) })
}

func (c some) match(p map[string]string) bool {
	return slices.ContainsFunc(c, func(o condition) bool { return o.match(p) })
}

// The canonical form is text, for logs too. Quoting keeps it unambiguous.
func (c equals) spell(b *strings.Builder) {
	b.WriteString(strconv.Quote(c.key) + "=" + strconv.Quote(c.value))
}

func (c exists) spell(b *strings.Builder) { b.WriteString(strconv.Quote(c.key)) }

func (c not) spell(b *strings.Builder) {
	b.WriteString("not(")
	c.condition.spell(b)
	b.WriteByte(')')
}

func (c every) spell(b *strings.Builder) { spellList(b, "and(", c) }
func (c some) spell(b *strings.Builder)  { spellList(b, "or(", c) }

func spellList(b *strings.Builder, head string, list []condition) {
	b.WriteString(head)
	for i, c := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		c.spell(b)
	}
	b.WriteByte(')')
}

func spell(c condition) string {
	var b strings.Builder
	c.spell(&b)
	return b.String()
}

var errNoRequirement = errors.New("a dynamic parameter constraint that says neither value nor exists")

func compile(p *discoveryv3.DynamicParameterConstraints, depth int) (condition, error) {
	if depth > maxConstraintDepth {
		return nil, fmt.Errorf("dynamic parameter constraints nested deeper than %d levels", maxConstraintDepth)
	}
	switch t := p.GetType().(type) {
	case *discoveryv3.DynamicParameterConstraints_Constraint:
		return compileSingle(t.Constraint)
	case *discoveryv3.DynamicParameterConstraints_AndConstraints:
		return compileList(t.AndConstraints, depth, func(c condition) (every, bool) { l, ok := c.(every); return l, ok })
	case *discoveryv3.DynamicParameterConstraints_OrConstraints:
		return compileList(t.OrConstraints, depth, func(c condition) (some, bool) { l, ok := c.(some); return l, ok })
	case *discoveryv3.DynamicParameterConstraints_NotConstraints:
		c, err := compile(t.NotConstraints, depth+1)
		if err != nil {
			return nil, err
		}
		return not{c}, nil
	default:
		return every{}, nil // without any constraint everything matches
	}
}

func compileSingle(p *discoveryv3.DynamicParameterConstraints_SingleConstraint) (condition, error) {
	switch t := p.GetConstraintType().(type) {
	case *discoveryv3.DynamicParameterConstraints_SingleConstraint_Value:
		return equals{p.GetKey(), t.Value}, nil
	case *discoveryv3.DynamicParameterConstraints_SingleConstraint_Exists_:
		return exists{p.GetKey()}, nil
	default:
		return nil, errNoRequirement
	}
}

// compileList sorts a list, after taking lists of the same kind apart that are in it.
// A list of one is that one.
func compileList[L every | some](p *discoveryv3.DynamicParameterConstraints_ConstraintList, depth int, same func(condition) (L, bool)) (condition, error) {
	var all []condition
	for _, o := range p.GetConstraints() {
		c, err := compile(o, depth+1)
		if err != nil {
			return nil, err
		}
		if inner, ok := same(c); ok {
			all = append(all, inner...)
		} else {
			all = append(all, c)
		}
	}
	all = ordered(all)
	if len(all) == 1 {
		return all[0], nil
	}
	var c any = L(all)
	return c.(condition), nil
}

// ordered sorts conditions by their spelling and leaves out repetitions.
func ordered(all []condition) []condition {
	bySpelling := make(map[string]condition, len(all))
	for _, c := range all {
		bySpelling[spell(c)] = c
	}
	all = all[:0]
	for _, key := range slices.Sorted(maps.Keys(bySpelling)) {
		all = append(all, bySpelling[key])
	}
	return all
}
