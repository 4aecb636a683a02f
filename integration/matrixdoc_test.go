package integration

import (
	"flag"
	"os"
	"strings"
	"testing"
)

var updateMatrix = flag.Bool("update", false, "rewrite the matrix in docs/protocol.md")

const protocolDoc = "../docs/protocol.md"

// The lines of docs/protocol.md between which TestMatrix writes.
const (
	matrixBegin = "<!-- matrix: written by `go test ./integration -run Matrix -update` -->"
	matrixEnd   = "<!-- end of the matrix -->"
)

// holdMatrixDoc holds the table in docs/protocol.md to the results, or writes it.
// Results of a part of the cells say nothing about the others.
func holdMatrixDoc(t *testing.T, results map[string]string) {
	t.Helper()
	if len(results) < len(variants)*len(upstreamVariants) {
		return
	}
	doc, err := os.ReadFile(protocolDoc)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(doc), matrixBegin+"\n")
	was, after, ended := strings.Cut(rest, matrixEnd)
	if !ok || !ended {
		t.Fatalf("%s has no lines %q and %q", protocolDoc, matrixBegin, matrixEnd)
	}
	now := matrixTable(results)
	switch {
	case was == now:
	case !*updateMatrix:
		t.Errorf("%s has the matrix\n%s\nthe results are\n%s", protocolDoc, was, now)
	default:
		if err := os.WriteFile(protocolDoc, []byte(before+matrixBegin+"\n"+now+matrixEnd+after), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// matrixTable has a row for each variant of clients, and a column for each of
// upstreams.
func matrixTable(results map[string]string) string {
	var b strings.Builder
	b.WriteString("\n| client |")
	var rule strings.Builder
	rule.WriteString("|---|")
	for _, up := range upstreamVariants {
		b.WriteString(" " + up.apiType + " |")
		rule.WriteString("---|")
	}
	b.WriteString("\n" + rule.String() + "\n")
	for _, down := range variants {
		b.WriteString("| " + down.name + " |")
		for _, up := range upstreamVariants {
			b.WriteString(" " + results[up.apiType+"/"+down.name] + " |")
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}
