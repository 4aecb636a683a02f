package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

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
	if err := m.Collect(fakeSource{passed: map[string]int{"primary": 0}, contacts: map[string]upstream.Contact{"primary": {}}, certificates: []Certificate{{Key: "server.tls.cert_file"}}, keyAges: map[string]time.Duration{"https://issuer.test": time.Minute}}); err != nil {
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
	alerts, err := os.ReadFile(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range regexp.MustCompile(namespace+`_[a-z_]+[a-z]`).FindAllString(text+string(alerts), -1) {
		if !names[name] {
			t.Errorf("%s is mentioned but is no metric", name)
		}
	}
}

const rulesFile = "../deploy/prometheus/rules.yaml"

// TestAlerts_OPS6: each alert says how bad it is, what happens, what to do first, and which section of
// docs/operating.md says more. promtool's tests, which integration/alerts runs, name all of them.
func TestAlerts_OPS6(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if err := yaml.Unmarshal([]byte(read(rulesFile)), &file); err != nil || len(file.Groups) != 1 {
		t.Fatalf("%d groups, %v", len(file.Groups), err)
	}
	sections := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^##+ (.*)$`).FindAllStringSubmatch(read("../docs/operating.md"), -1) {
		sections[strings.ReplaceAll(regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	tests := read("../deploy/prometheus/rules_test.yaml")
	for _, r := range file.Groups[0].Rules {
		if s := r.Labels["severity"]; s != "warning" && s != "critical" {
			t.Errorf("%s has the severity %q", r.Alert, s)
		}
		runbook, section, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if !strings.HasSuffix(runbook, "/docs/operating.md") || !sections[section] {
			t.Errorf("%s: docs/operating.md has no section %q", r.Alert, section)
		}
		if r.Annotations["summary"] == "" || !strings.HasSuffix(r.Annotations["description"], ".") {
			t.Errorf("%s has the summary %q and the description %q", r.Alert, r.Annotations["summary"], r.Annotations["description"])
		}
		if !strings.Contains(tests, `alertname="`+r.Alert+`"`) {
			t.Errorf("%s has no test", r.Alert)
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
	if err := m.Collect(fakeSource{passed: map[string]int{"primary": 0}, contacts: map[string]upstream.Contact{"primary": {}}, certificates: []Certificate{{Key: "server.tls.cert_file"}}, keyAges: map[string]time.Duration{"https://issuer.test": time.Minute}}); err != nil {
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
