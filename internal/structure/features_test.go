package structure

import (
	"go/types"
	"slices"
	"strings"
	"testing"
)

// owners are the types of package cache that own features: structs that their fields
// hold by value. A feature's methods take an entry and never see the owner, so a
// feature holds no pointer to one.
var owners = []string{"Table", "Collection"}

// apart are the features, and parts of features, that their owner does not hold by value.
var apart = []string{"errorLog", "Lifetime", "referenceNews"}

func TestFeaturesDoNotSeeTheirOwner(t *testing.T) {
	scope := load(t, "cache").Scope()
	if found := seeOwner(scope); len(found) > 0 {
		t.Errorf("%q are parts of a table or a collection, and hold a pointer to one", found)
	}
	for _, name := range apart {
		switch feature := scope.Lookup(name); {
		case feature == nil:
			t.Errorf("there is no type %s any more: take it off the list", name)
		case pointsToOwner(feature.Type(), make(map[types.Type]bool)):
			t.Errorf("%s is a feature of a table or a collection, and holds a pointer to one", name)
		}
	}
}

// seeOwner returns the names of the features that hold a pointer to an owner.
func seeOwner(scope *types.Scope) []string {
	var found []string
	for _, name := range scope.Names() {
		if !isOwner(name) {
			continue
		}
		for _, feature := range parts(scope.Lookup(name).Type()) {
			if pointsToOwner(feature, make(map[types.Type]bool)) {
				found = append(found, feature.Obj().Name())
			}
		}
	}
	return found
}

func isOwner(name string) bool {
	return slices.ContainsFunc(owners, func(owner string) bool { return strings.EqualFold(owner, name) })
}

// parts returns the types of a struct's fields that are structs of the same package.
func parts(t types.Type) []*types.Named {
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var all []*types.Named
	for field := range s.Fields() {
		named, ok := field.Type().(*types.Named)
		if !ok || named.Obj().Pkg() != field.Pkg() {
			continue
		}
		if _, ok := named.Underlying().(*types.Struct); ok {
			all = append(all, named)
		}
	}
	return all
}

// pointsToOwner tells whether a struct, or a part of it, has a pointer to an owner.
func pointsToOwner(t types.Type, seen map[types.Type]bool) bool {
	s, ok := t.Underlying().(*types.Struct)
	if !ok || seen[t] {
		return false
	}
	seen[t] = true
	for field := range s.Fields() {
		if pointer, ok := field.Type().(*types.Pointer); ok {
			if to, ok := pointer.Elem().(*types.Named); ok && isOwner(to.Obj().Name()) {
				return true
			}
		}
		if pointsToOwner(field.Type(), seen) {
			return true
		}
	}
	return false
}
