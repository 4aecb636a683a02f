package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A Collect looks at so many members and no more, and at none once its batches are full (OPS-3).
func TestLook_OPS3(t *testing.T) {
	var p delivery
	n := 0
	for p.look() {
		n++
	}
	if n != cache.MaxLooked || !p.writer.full {
		t.Errorf("it looks at %d members, want %d; full: %t", n, cache.MaxLooked, p.writer.full)
	}
	full := delivery{writer: writer{full: true}}
	if full.look() {
		t.Error("it looks at members though its batches are full")
	}
}

// Each response has the version of its own table, of all that one Collect sends (ACK-4).
func TestSystemVersionOfTables_ACK4(t *testing.T) {
	for _, tc := range []struct{ subs, want []string }{
		{[]string{"a", "*"}, []string{"CDS 1", "CDS 2", "EDS 3", "EDS 4", "LDS 5", "LDS 6"}}, // names first
		{[]string{"a"}, []string{"CDS 1", "EDS 3", "LDS 5"}},
		{[]string{"*"}, []string{"CDS 2", "EDS 4", "LDS 6"}},
	} {
		b := newBed(t, cache.Limits{})
		all, c := b.join(), b.join()
		for _, url := range []string{cds, eds, lds} {
			all.sub(url, "a", "*")
			c.sub(url, tc.subs...)
		}
		b.connect(0)
		b.connect(1)
		for i, url := range []string{cds, eds, lds} {
			for stream := range 2 {
				r := response(url, "+a@1", "+b@1")
				r.Version = string(rune('1' + 2*i + stream))
				if err := b.apply(stream, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		c.collect()
		var got []string
		for _, batch := range c.took {
			got = append(got, short[batch.TypeURL]+" "+batch.SystemVersion)
		}
		b.expect(got, tc.want...)
	}
}

// A name could come twice in a response only where a client does not see how it spelled a name, and where one resource has
// several names (RES-4).
func TestTwice_RES4(t *testing.T) {
	for _, tc := range []struct {
		name string
		form Form
		subs []string
		want bool
	}{
		{"one spelling", Form{}, []string{nameQ}, false},
		{"two spellings", Form{}, []string{nameQ, nameQ2}, false},
		{"one spelling, bare", bareForm, []string{nameQ}, false},
		{"two spellings, bare", bareForm, []string{nameQ, nameQ2}, true},
		{"two spellings of a glob, bare", bareForm, []string{globQ, globQ2}, true},
		{"two spellings, wrapped", wrappedForm, []string{nameQ, nameQ2}, false},
		{"directives", Form{}, []string{altG}, true},
	} {
		c := newBed(t, cache.Limits{}).joinAs(tc.form)
		c.sub(cds, tc.subs...)
		wr := &writer{size: 1 << 20, left: 1}
		wr.turn(c.c.find(cds), cache.ByName)
		if got := wr.twice(); got != tc.want {
			t.Errorf("%s: a name could come twice: %t", tc.name, got)
		}
		if !wr.first("a") || wr.first("a") == tc.want || !wr.first("b") {
			t.Errorf("%s: a name comes twice, or not at all", tc.name)
		}
	}
}

// Endpoints that went behind their changed cluster do not go again behind it, whatever was sent before (WARM-3).
func TestEndpointsGoOnce_WARM3(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.sub(cds, "*")
	c.sub(eds, "a")
	b.connect(0)
	for i := range 3 {
		version := string(rune('1' + i))
		if err := b.apply(0, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{clusterResource(t, "a", version)}}); err != nil {
			t.Fatal(err)
		}
		b.says(eds, "+a@"+version)
		b.expect(c.collect(), "CDS +a@"+version, "EDS +a@"+version)
	}
}

// A Collect has so many batches and no more, lists too.
func TestPartsOfLists_RES2(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(bareForm)
	c.sub(cds, "*")
	c.sub(lds, "*")
	b.connect(0)
	b.says(cds, "+a@1")
	b.says(lds, "+a@1")
	for _, want := range []string{cds, lds} {
		batches, more := collectStates([]*Place{c.c}, never, 1<<20, 1)
		if len(batches) != 1 || batches[0].TypeURL != want || more != (want == cds) {
			t.Errorf("%d batches, more %t", len(batches), more)
		}
	}
}
