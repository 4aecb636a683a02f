package main

import (
	"bytes"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A program with switches does for each mutant what that mutant does when it is compiled by itself.
func TestSwitchesAreMutants(t *testing.T) {
	source, err := os.ReadFile("testdata/sample.go.txt")
	if err != nil {
		t.Fatal(err)
	}
	original, mutated, s := module(t, source), module(t, source), suite{switched: module(t, source)}
	if err := s.write(t.Context(), []string{"."}); err != nil {
		t.Fatal(err)
	}
	operators, err := s.operators()
	if err != nil {
		t.Fatal(err)
	}
	all := build(t, s.switched)
	want := play(t, build(t, original), "")
	if got := play(t, all, ""); got != want {
		t.Errorf("without a mutant it prints\n%s\nand not\n%s", got, want)
	}

	kinds := map[kind]int{}
	for i, tokens := range [][]token.Token{
		{token.LEQ, token.GEQ}, // less
		{token.LAND},           // same: an operator comes before its operands
		{token.NEQ},
		{token.LOR},
		{token.LOR},
		{token.EQL},
		{token.EQL},
		{token.NEQ},
		{token.SUB}, // both: of strings
		{token.LOR},
		{token.LEQ, token.GEQ}, // count
		{token.DEC},            // of the for
		{token.DEC},
		{token.NEQ},
		{token.NEQ},
		{token.MUL},
		{token.INC}, // of the if
		{token.NEQ},
		{token.ADD}, // of a constant expression
		{token.DEC},
		{token.ADD}, // sum
		{token.SUB},
		{token.QUO},
		{token.MUL},
		{token.ADD},
		{token.ADD},
		{token.ADD}, // limit
		{token.QUO},
	} {
		kinds[operators["main/sample.go"][i].kind]++
		for _, to := range tokens {
			text := mutate(t, source, i, to)
			create(t, filepath.Join(mutated, "sample.go"), text)
			f, at, c, err := which(filepath.Join(original, "sample.go"), filepath.Join(mutated, "sample.go"))
			if err != nil {
				t.Fatal(err)
			}
			if at != i || c == noSwitch {
				t.Errorf("operator %d is taken for %d, with change %d", i, at, c)
			}
			if operators[f.name][i].kind != switched {
				continue
			}
			if got, want := play(t, all, f.id(at, c)), play(t, build(t, mutated), ""); got != want {
				t.Errorf("mutant %s prints\n%s\nand by itself\n%s\n%s", f.id(at, c), got, want, text)
			}
		}
	}
	if n := len(operators["main/sample.go"]); kinds[switched] != n-4 || kinds[constant] != 3 || kinds[text] != 1 {
		t.Errorf("of %d operators there are %v", n, kinds)
	}
}

// The tests that reach an operator are those that evaluate it.
func TestNotes(t *testing.T) {
	s := suite{switched: module(t, []byte(`package main
func both(a, b bool) bool { return a && !(b == a) }
func never(a int) bool { return a < 0 }
func main() {}
`))}
	s.original = s.switched
	create(t, filepath.Join(s.switched, "sample_test.go"), []byte(`package main
import "testing"
func TestFirst(t *testing.T) { both(false, true) }
func TestSecond(t *testing.T) { both(true, true) }
func TestThird(t *testing.T) {}
`))
	if err := s.write(t.Context(), []string{"."}); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", s.binary("."), ".")
	cmd.Dir = s.switched
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := s.note(t.Context(), []string{"."}); err != nil {
		t.Fatal(err)
	}
	for site, want := range [][]string{{"TestFirst", "TestSecond"}, {"TestSecond"}, nil} {
		tests, err := s.reaching("main/sample.go", site)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range tests {
			names = append(names, r.name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("operator %d is reached by %q, want %q", site, names, want)
		}
	}
	covered, err := os.ReadFile(filepath.Join(s.switched, "coverage.out"))
	if err != nil {
		t.Fatal(err)
	}
	if want := "mode: set\nsample/sample.go:2.38,2.38 1 1\nsample/sample.go:2.45,2.45 1 1\n"; string(covered) != want {
		t.Errorf("covered is %q, want %q", covered, want)
	}
}

// The nearest tests run first, long ones last and by themselves.
func TestSchedule(t *testing.T) {
	tests := []test{{"a", "long", time.Second, 1}, {"b", "near", time.Millisecond, 1}, {"a", "longer", time.Minute, 1}}
	for range nearest {
		tests = append(tests, test{"b", "far", time.Millisecond, 3})
	}
	tests = append(tests, test{"a", "short", time.Millisecond, 4})
	var got []string
	for _, group := range schedule(tests) {
		got = append(got, fmt.Sprintf("%s %s %d", group[0].of, group[0].name, len(group)))
	}
	if want := []string{fmt.Sprintf("b near %d", nearest), "b far 1", "a short 1", "a long 1", "a longer 1"}; !slices.Equal(got, want) {
		t.Errorf("these groups run: %q, want %q", got, want)
	}
}

// mutate does to an operator what gremlins does.
func mutate(t *testing.T, source []byte, operator int, to token.Token) []byte {
	t.Helper()
	set := token.NewFileSet()
	tree, err := parser.ParseFile(set, "sample.go", source, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	i := 0
	ast.Inspect(tree, func(n ast.Node) bool {
		var at *token.Token
		switch n := n.(type) {
		case *ast.BinaryExpr:
			at = &n.Op
		case *ast.UnaryExpr:
			at = &n.Op
		case *ast.IncDecStmt:
			at = &n.Tok
		default:
			return true
		}
		if *at == token.AND || *at == token.SHL {
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

// module returns the folder of a module with one file.
func module(t *testing.T, source []byte) string {
	t.Helper()
	dir := t.TempDir()
	create(t, filepath.Join(dir, "go.mod"), []byte("module sample\n\ngo 1.26\n"))
	create(t, filepath.Join(dir, "sample.go"), source)

	return dir
}

func create(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func build(t *testing.T, dir string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "program")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
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

// Tests that cannot be limited do not run on.
func TestUnlimitedTestsEnd(t *testing.T) {
	const unknown = 1 << 10 // no resource has this number
	cmd := exec.CommandContext(t.Context(), "sleep", "1000")
	if err := limited(cmd, map[int]uint64{unknown: 1}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a limit of nothing: %v", err)
	}
	if cmd.ProcessState == nil {
		t.Error("the process runs on")
	}
}
