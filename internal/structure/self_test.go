package structure

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// checked type-checks a package without imports.
func checked(t *testing.T, text string) *types.Package {
	t.Helper()
	fset := token.NewFileSet()
	syntax, err := parser.ParseFile(fset, "p.go", text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var config types.Config
	p, err := config.Check("p", fset, []*ast.File{syntax}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestSizes(t *testing.T) {
	p := checked(t, `package p
type I interface { A(); B() }
type plain struct { x, y int }
func (plain) Value() {}
func (*plain) Pointer() {}
type embedding struct { *plain; I; z int }
func (embedding) Own() {}
type shadowing struct { embedding; x int }
func (*shadowing) Own() {}
type recursive struct { *recursive; a int }
type alias = plain
type generic[T any] struct { v T }
func (generic[T]) Get() {}
`)
	got := area{sources: []*source{{room: "p", types: p}}}.types()
	want := map[string]size{
		"p.I":         {2, 0},
		"p.plain":     {2, 2},
		"p.embedding": {5, 5}, // plain, x, y, I, z
		"p.shadowing": {5, 6}, // these and embedding
		"p.recursive": {0, 2},
		"p.generic":   {1, 1},
	}
	for name, is := range got {
		if is != want[name] {
			t.Errorf("%s: %+v, want %+v", name, is, want[name])
		}
	}
	if len(got) != len(want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestAgainst(t *testing.T) {
	for _, tt := range []struct {
		name   string
		arrows []arrow
		want   int
	}{
		{"none", nil, 0},
		{"a chain", []arrow{{"c", "b"}, {"b", "a"}, {"c", "a"}}, 0},
		{"a circle of two", []arrow{{"a", "b"}, {"b", "a"}}, 1},
		{"a circle of four", []arrow{{"a", "b"}, {"b", "c"}, {"c", "d"}, {"d", "a"}}, 1},
		{"two circles with one arrow in common", []arrow{{"a", "b"}, {"b", "c"}, {"c", "a"}, {"b", "d"}, {"d", "a"}}, 1},
		{"all use all", []arrow{{"a", "b"}, {"b", "a"}, {"a", "c"}, {"c", "a"}, {"b", "c"}, {"c", "b"}}, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			arrows := make(map[arrow]bool)
			for _, a := range tt.arrows {
				arrows[a] = true
			}
			if got := against(arrows); len(got) != tt.want {
				t.Errorf("%v, want %d", got, tt.want)
			}
		})
	}
}

func TestQuantile(t *testing.T) {
	for _, tt := range []struct {
		values       []int
		median, most int
	}{
		{nil, 0, 0},
		{[]int{7}, 7, 7},
		{[]int{3, 1, 2}, 2, 3},
		{[]int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1}, 5, 9},
	} {
		if median, most := quantile(tt.values, 0.5), quantile(tt.values, 0.9); median != tt.median || most != tt.most {
			t.Errorf("%v: median %d, 9 in 10 %d; want %d and %d", tt.values, median, most, tt.median, tt.most)
		}
	}
}

func TestSeeOwner(t *testing.T) {
	p := checked(t, `package p
type Table struct { good good; bad bad; worse worse; other *apart; entries map[string]*entry }
type good struct { first, last *entry; n int }
type bad struct { owner *Table }
type worse struct { good; part struct { owner *collection } }
type apart struct { owner *Table }
type entry struct { table *Table }
type collection struct { table *Table; changes log }
type log struct { entries []*entry }
`)
	if got := seeOwner(p.Scope()); !slices.Equal(got, []string{"bad", "worse"}) {
		t.Errorf("%q", got)
	}
}
