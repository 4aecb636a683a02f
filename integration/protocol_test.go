package integration

import (
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var updateProtocol = flag.Bool("update", false, "rewrite the column of tests in docs/protocol.md")

const (
	root        = ".."
	protocolDoc = root + "/docs/protocol.md"
	// notYet marks rows that are planned; a row without it must have a test.
	notYet = "not yet"
)

var (
	requirementID = regexp.MustCompile(`\b(?:VAR|STR|ACK|SUB|RES|TTL|ADS|WARM|REST|FILE|NAME|GLOB|LIST|LOC|AGG|DYN|ERR|OPS|ABS|UPS|LRS|ACC|LIM|SUR|GATE|CSDS)-[0-9]+\b`)
	idInName      = regexp.MustCompile(`(?:VAR|STR|ACK|SUB|RES|TTL|ADS|WARM|REST|FILE|NAME|GLOB|LIST|LOC|AGG|DYN|ERR|OPS|ABS|UPS|LRS|ACC|LIM|SUR|GATE|CSDS)_?[0-9]+`)
	protocolRow   = regexp.MustCompile(`^\| ([A-Z]+-[0-9]+) \| (.*) \| (.*) \|$`)
	digits        = regexp.MustCompile(`[0-9]+$`)
)

// TestProtocolDoc holds docs/protocol.md to the tests: each requirement is listed
// with exactly the tests that name it. `go test ./integration -run ProtocolDoc
// -update` writes the column.
func TestProtocolDoc(t *testing.T) {
	tests := testsByRequirement(t)
	doc, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(doc), "\n")
	listed := make(map[string]bool)
	for i, line := range lines {
		row := protocolRow.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		id, what, was := row[1], row[2], row[3]
		if listed[id] {
			t.Errorf("%s is listed twice", id)
		}
		listed[id] = true
		now := strings.Join(tests[id], ", ")
		if strings.HasPrefix(was, notYet) {
			continue
		}
		if now == "" {
			t.Errorf("no test names %s", id)
			continue
		}
		if was != now {
			if !*updateProtocol {
				t.Errorf("%s is listed with %q, the tests are %q", id, was, now)
			}
			lines[i] = fmt.Sprintf("| %s | %s | %s |", id, what, now)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(tests)) {
		if !listed[id] {
			t.Errorf("%s is named by %v and not listed", id, tests[id])
		}
	}
	if *updateProtocol {
		if err := os.WriteFile(protocolDoc, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// testsByRequirement finds the tests that name a requirement: in their own name
// ("SUB8"), or in a string, the name of a case for
// instance.
func testsByRequirement(t *testing.T) map[string][]string {
	t.Helper()
	found := make(map[string]map[string]bool)
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		room := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), root+"/")
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !isTest(f.Name.Name) {
				continue
			}
			for _, id := range idsOf(f) {
				if found[id] == nil {
					found[id] = make(map[string]bool)
				}
				found[id]["`"+room+"."+f.Name.Name+"`"] = true
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	tests := make(map[string][]string)
	for id, names := range found {
		tests[id] = slices.Sorted(maps.Keys(names))
	}
	return tests
}

func isTest(name string) bool {
	return strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
}

// idsOf are the requirements that a test names.
func idsOf(f *ast.FuncDecl) []string {
	found := idInName.FindAllString(f.Name.Name, -1)
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found = append(found, requirementID.FindAllString(lit.Value, -1)...)
		}
		return true
	})
	ids := make([]string, len(found))
	for i, id := range found {
		number := digits.FindString(id)
		ids[i] = strings.TrimRight(strings.TrimSuffix(id, number), "-_") + "-" + number
	}
	return ids
}
