package structure

import (
	"go/ast"
	"go/types"
	"math"
	"slices"
	"strings"
)

// area is a part of the code that is measured as a whole.
type area struct {
	code    *code
	sources []*source
}

// area returns the packages in and under rooms, without those in and under except.
func (c *code) area(rooms, except []string) area {
	a := area{code: c}
	for _, room := range c.order {
		if under(room, rooms) && !under(room, except) {
			a.sources = append(a.sources, c.sources[room])
		}
	}
	return a
}

func under(room string, rooms []string) bool {
	return slices.ContainsFunc(rooms, func(r string) bool { return room == r || strings.HasPrefix(room, r+"/") })
}

// size is how large a type is: the methods that can be called on a pointer to it, and
// the fields that can be selected. What it has by embedding counts.
type size struct{ methods, fields int }

// types returns the sizes of all types that are declared in packages, by package and
// name: "cache.Store".
func (a area) types() map[string]size {
	sizes := make(map[string]size)
	for _, s := range a.sources {
		scope := s.types.Scope()
		for _, name := range scope.Names() {
			if declared, ok := scope.Lookup(name).(*types.TypeName); ok && !declared.IsAlias() {
				sizes[s.room+"."+name] = size{methods(declared), fields(declared)}
			}
		}
	}
	return sizes
}

func methods(of *types.TypeName) int {
	t := of.Type()
	if !types.IsInterface(t) {
		t = types.NewPointer(t)
	}
	n := 0
	for method := range types.NewMethodSet(t).Methods() {
		if selectable(method.Obj(), of.Pkg()) {
			n++
		}
	}
	return n
}

func fields(of *types.TypeName) int {
	names := make(map[string]bool)
	collectFields(of.Type(), of.Pkg(), names, make(map[types.Type]bool))
	return len(names)
}

// collectFields adds to names the fields that package from can select in t.
func collectFields(t types.Type, from *types.Package, names map[string]bool, seen map[types.Type]bool) {
	if pointer, ok := t.Underlying().(*types.Pointer); ok {
		t = pointer.Elem()
	}
	s, ok := t.Underlying().(*types.Struct)
	if !ok || seen[t] {
		return
	}
	seen[t] = true
	for field := range s.Fields() {
		if !selectable(field, from) {
			continue
		}
		names[field.Name()] = true
		if field.Embedded() {
			collectFields(field.Type(), from, names, seen)
		}
	}
}

func selectable(o types.Object, from *types.Package) bool { return o.Exported() || o.Pkg() == from }

// files returns the length of each file in lines, by path.
func (a area) files() map[string]int {
	lengths := make(map[string]int)
	for _, s := range a.sources {
		for _, f := range s.files {
			lengths[f.path] = f.lines
		}
	}
	return lengths
}

// functions returns the lengths of all functions in lines, from the line of "func" to
// the closing brace.
func (a area) functions() []int {
	var lengths []int
	for _, s := range a.sources {
		for _, f := range s.files {
			for _, declaration := range f.syntax.Decls {
				if function, ok := declaration.(*ast.FuncDecl); ok {
					lengths = append(lengths, a.code.line(function.End())-a.code.line(function.Pos())+1)
				}
			}
		}
	}
	return lengths
}

// arrow stands for all uses, in one file, of what another file defines.
type arrow struct{ user, definer string }

// arrows returns the arrows between files of the area. A use is any mention of a
// constant, variable, function, type, field or method.
func (a area) arrows() map[arrow]bool {
	inside := a.files()
	arrows := make(map[arrow]bool)
	for _, s := range a.sources {
		for identifier, object := range s.info.Uses {
			if _, file := object.(*types.PkgName); file || !object.Pos().IsValid() {
				continue
			}
			r := arrow{a.code.file(identifier.Pos()), a.code.file(object.Pos())}
			if _, ok := inside[r.definer]; ok && r.user != r.definer {
				arrows[r] = true
			}
		}
	}
	return arrows
}

// quantile returns the smallest of the values that the share q of them does not exceed.
func quantile(values []int, q float64) int {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[int(math.Ceil(q*float64(len(values))))-1]
}
