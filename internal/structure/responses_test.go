package structure

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filling are the methods of wire.Builder that put resources into a response, and may, in which
// functions.
var filling = map[string][]string{
	"Add": {"incrementalFormat.add"}, "AddAs": {"incrementalFormat.add"}, "AddTTL": {"incrementalFormat.add"},
	"AddAny": {"bareFormat.add"}, "AddWrapped": nil, "AddWrappedTTL": {"wrappedFormat.add"},
	"AddBody": {"Batch.take"}, "AddHeartbeat": {"writer.heartbeat"}, "Join": {"joined"},
}

// ACC-3: resources reach a response by one function, typeSub.put, which asks whether the client may
// have them. A call of anything that fills a response anywhere else fails this test.
func TestResourcesReachResponsesByOneFunction_ACC3(t *testing.T) {
	found := make(map[string]bool)
	for _, room := range []string{"downstream", "downstream/delivery"} {
		files, err := filepath.Glob(filepath.Join(moduleRoot, room, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			for _, declaration := range parsed.Decls {
				if f, ok := declaration.(*ast.FuncDecl); ok && f.Body != nil {
					checkFilling(t, f, found, room == "downstream/delivery")
				}
			}
		}
	}
	for _, call := range []string{"typeSub.put: take", "Batch.take: Format.add", "incrementalFormat.add: Add", "Batch.take: AddBody", "Snapshot.take: Resources"} {
		if !found[call] {
			t.Errorf("nothing is found of %s: the test does not see what it is for", call)
		}
	}
}

// checkFilling looks at the calls of a function, and at its assignments where there are snapshots.
func checkFilling(t *testing.T, f *ast.FuncDecl, found map[string]bool, snapshots bool) {
	t.Helper()
	in := functionName(f)
	only := func(what string, allowed ...string) {
		found[in+": "+what] = true
		if !slices.Contains(allowed, in) {
			t.Errorf("%s puts resources into a response by %s: only %v may", in, what, allowed)
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			allowed, fills := filling[s.Sel.Name]
			on := lastName(s.X)
			switch {
			case s.Sel.Name == "take" && len(n.Args) == 1:
				only("take", "typeSub.put")
			case s.Sel.Name == "add" && len(n.Args) == 4 && strings.HasSuffix(strings.ToLower(on), "format"):
				only("Format.add", "Batch.take")
			case fills && slices.Contains([]string{"Body", "to"}, on):
				only(s.Sel.Name, allowed...)
			}
		case *ast.AssignStmt:
			for _, left := range n.Lhs {
				if s, ok := left.(*ast.SelectorExpr); ok && snapshots && s.Sel.Name == "Resources" {
					// The other two take over what Snapshot.take was given.
					only("Resources", "Snapshot.take", "Snapshot.Confirmed", "TakeSnapshot")
				}
			}
		}
		return true
	})
}

// functionName is a function's name behind that of its receiver's type.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	return fmt.Sprintf("%s.%s", lastName(f.Recv.List[0].Type), f.Name.Name)
}

// lastName is the last name in an expression.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.StarExpr:
		return lastName(e.X)
	case *ast.UnaryExpr:
		return lastName(e.X)
	}
	return ""
}
