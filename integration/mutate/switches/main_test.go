package main

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A program with switches does for each mutant what that mutant does when it is compiled by itself.
func TestSwitchesAreMutants(t *testing.T) {
	source, err := os.ReadFile("testdata/sample.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	original, mutated := filepath.Join(t.TempDir(), "sample.go"), filepath.Join(t.TempDir(), "sample.go")
	create(t, original, source)
	create(t, mutated, source)
	if err := run([]string{"write", mutated}); err != nil {
		t.Fatal(err)
	}
	all := build(t, mutated)
	want := play(t, build(t, original), "")
	if got := play(t, all, ""); got != want {
		t.Errorf("without a mutant it prints\n%s\nand not\n%s", got, want)
	}

	seen := map[string]int{}
	for i, tokens := range [][]token.Token{
		{token.LEQ, token.GEQ}, // less
		{token.LAND},           // same: an operator comes before its operands
		{token.NEQ},
		{token.LOR},
		{token.LOR},
		{token.EQL},
		{token.EQL},
		{token.NEQ},
		{token.LOR},            // both
		{token.LEQ, token.GEQ}, // count
		{token.DEC},            // of the loop: it has no switch
		{token.DEC},
		{token.NEQ},
		{token.CONTINUE},
		{token.NEQ},
		{token.MUL}, // no switch either
		{token.BREAK},
		{token.DEC},
	} {
		for _, to := range tokens {
			text := change(t, source, i, to)
			create(t, mutated, text)
			id, err := which(original, mutated)
			if err != nil {
				t.Fatal(err)
			}
			seen[id]++
			if id == "" {
				continue
			}
			if got, want := play(t, all, id), play(t, build(t, mutated), ""); got != want {
				t.Errorf("mutant %s prints\n%s\nand by itself\n%s\n%s", id, got, want, text)
			}
		}
	}
	if len(seen) != 19 || seen[""] != 2 {
		t.Errorf("of 20 mutants these have switches: %v", seen)
	}
}

// change does to an operator what gremlins does.
func change(t *testing.T, source []byte, operator int, to token.Token) []byte {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "sample.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	ast.Inspect(tree, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			return false
		}
		var at *token.Token
		switch n := n.(type) {
		case *ast.BinaryExpr:
			at = &n.Op
		case *ast.IncDecStmt:
			at = &n.Tok
		case *ast.BranchStmt:
			at = &n.Tok
		default:
			return true
		}
		if i == operator {
			*at = to
		}
		i++

		return true
	})
	var text bytes.Buffer
	if err := printer.Fprint(&text, set, tree); err != nil {
		t.Fatal(err)
	}

	return text.Bytes()
}

func create(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, source string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, source).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	return program
}

// play returns what a program prints with a mutant, and how it panics.
func play(t *testing.T, program, mutant string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program)
	cmd.Env = append(os.Environ(), "MUTANT="+mutant)
	out, err := cmd.Output()
	if err != nil {
		return string(out) + err.Error()
	}

	return string(out)
}
