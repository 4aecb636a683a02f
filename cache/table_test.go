package cache

import "testing"

// A client may have invented a type that no discovery service is known of, while the server has not said anything of it. Its
// names are not kept, and there are only so many such types (LIM-2).
func TestUnheard_LIM2(t *testing.T) {
	const invented = "type.googleapis.com/made.Up"
	for name, tc := range map[string]struct {
		typeURL string
		source  Source
		change  func(*Table)
		want    bool
	}{
		"invented":  {invented, Source{}, func(*Table) {}, true},
		"known":     {cds, Source{}, func(*Table) {}, false},
		"heard":     {invented, Source{}, func(t *Table) { t.upstream.heard = true }, false},
		"resources": {invented, Source{}, func(t *Table) { t.usage.resources = 1 }, false},
		"resolved":  {invented, Source{Resolved: true}, func(*Table) {}, false},
	} {
		table := New(Limits{}, nil).Open(tc.source).Table(tc.typeURL, ByName)
		tc.change(table)
		if got := table.unheard(); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Content that a client rejected alone is counted until it changes, or goes (ACK-3).
func TestSuspectsCounted_ACK3(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.says(WholeType, "+a@1", "+b@1", "+c@1")
	table := k.store.FindTable(cds, WholeType)
	for _, name := range []string{"a", "b", "c", "c"} {
		table.rejections.Add(table.Find(name), new(rejection))
	}
	for i, said := range []string{"", "+a@1", "+a@2", "-b", "+c@2"} {
		if said != "" {
			k.says(WholeType, said)
		}
		if want := []int{3, 3, 2, 1, 0}[i]; table.rejections.suspects != want {
			t.Errorf("after %q %d are suspect, want %d", said, table.rejections.suspects, want)
		}
	}
}
