package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/upstream"
)

// TestDocumentation compares the tables of docs/metrics.md with what is gathered:
// every metric has a row with its type and labels, every row a metric, and the
// queries and alerts use none that does not exist.
func TestDocumentation(t *testing.T) {
	data, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	rows := make(map[string][]string)
	for line := range strings.Lines(text) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		name := strings.Trim(cells[0], " `")
		if !strings.HasPrefix(line, "| `"+namespace+"_") {
			continue
		}
		if _, twice := rows[name]; twice {
			t.Errorf("%s has two rows", name)
		}
		rows[name] = cells
	}

	m, reg := setUp(t)
	m.Reloads().Started("abc", time.Now())
	if err := m.Collect(fakeSource{contacts: map[string]upstream.Contact{"primary": {}}, certificates: []Certificate{{Key: "server.tls.cert_file"}}}); err != nil {
		t.Fatal(err)
	}
	names := make(map[string]bool)
	for _, f := range families(t, reg) {
		name, typ := f.GetName(), strings.ToLower(f.GetType().String())
		names[name] = true
		if typ == "histogram" {
			names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
		}
		cells := rows[name]
		delete(rows, name)
		if len(cells) != 4 {
			t.Errorf("%s has no row of name, type, labels and meaning", name)
			continue
		}
		if got := strings.TrimSpace(cells[1]); got != typ {
			t.Errorf("%s: type %q, want %q", name, got, typ)
		}
		var want []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			want = append(want, l.GetName())
			if !strings.Contains(text, "| `"+l.GetName()+"` | ") && name != "xdsrelay_build_info" {
				t.Errorf("label %s has no row", l.GetName())
			}
		}
		got := regexp.MustCompile(`\w+`).FindAllString(cells[2], -1)
		slices.Sort(got)
		if !slices.Equal(got, want) { // gathered labels are sorted
			t.Errorf("%s: labels %q, want %q", name, got, want)
		}
		if strings.TrimSpace(cells[3]) == "" {
			t.Errorf("%s: no meaning", name)
		}
	}
	for name := range rows {
		t.Errorf("%s has a row but is no metric", name)
	}
	for _, name := range regexp.MustCompile(namespace+`_[a-z_]+[a-z]`).FindAllString(text, -1) {
		if !names[name] {
			t.Errorf("%s is mentioned but is no metric", name)
		}
	}
}

// TestDocumentationOfReasons sees that the values of the labels whose meaning
// differs between metrics are explained.
func TestDocumentationOfReasons(t *testing.T) {
	data, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	m, reg := setUp(t)
	if err := m.Collect(fakeSource{contacts: map[string]upstream.Contact{"primary": {}}, certificates: []Certificate{{Key: "server.tls.cert_file"}}}); err != nil {
		t.Fatal(err)
	}
	for _, f := range families(t, reg) {
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				switch l.GetName() {
				case labelReason, labelState, labelResult, labelType, labelVariant:
					if !strings.Contains(string(data), "`"+l.GetValue()+"`") {
						t.Errorf("%s: %s %q is not explained", f.GetName(), l.GetName(), l.GetValue())
					}
				}
			}
		}
	}
}
