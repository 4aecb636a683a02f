package report

import (
	"strings"
	"testing"
)

func TestPutReplacesOneSection(t *testing.T) {
	const document = "# Title\n\n<!-- begin fanout -->\nold\n<!-- end fanout -->\n\nText.\n\n<!-- begin idle -->\n<!-- end idle -->\n"
	const want = "# Title\n\n<!-- begin fanout -->\n\nnew\n\n<!-- end fanout -->\n\nText.\n\n<!-- begin idle -->\n<!-- end idle -->\n"
	got, err := Put(document, "fanout", "\nnew\n")
	if err != nil || got != want {
		t.Errorf("the document is %q, %v, expected %q", got, err, want)
	}
	if again, err := Put(got, "fanout", "new"); err != nil || again != want {
		t.Errorf("the second time it is %q, %v, expected no change", again, err)
	}
}

func TestPutWithoutAPlace(t *testing.T) {
	for document, want := range map[string]string{
		"# Title\n":                       `no line "<!-- begin fanout -->"`,
		"<!-- begin fanout -->\nno end\n": `no line "<!-- end fanout -->"`,
		"<!-- end fanout -->\n<!-- begin fanout -->\nafter\n": `no line "<!-- end fanout -->" behind`,
	} {
		if _, err := Put(document, "fanout", "new"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("of %q the error is %v, expected %q", document, err, want)
		}
	}
}
