package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// The bytes of all names and globs count, of all types, as they are spelled (LIM-1).
func TestNamesBytes_LIM1(t *testing.T) {
	c := newBed(t, cache.Limits{}).join()
	bytes := func(want int) {
		t.Helper()
		if got := c.c.NamesBytes(); got != want {
			t.Errorf("the names have %d bytes, want %d", got, want)
		}
	}
	bytes(0)
	c.sub(cds, "*", "ab", globQ2)
	bytes(len("ab") + len(globQ2))
	c.sub(eds, globG, "abc")
	bytes(len("ab") + len(globQ2) + len(globG) + len("abc"))
	c.unsub(cds, globQ2)
	bytes(len("ab") + len(globG) + len("abc"))
	c.unsub(eds, "abc")
	bytes(len("ab") + len(globG))
}

// Rules that allow less make a list due that lacks the rest, for a client that has one (ACC-3).
func TestJudgedByNarrower_ACC3(t *testing.T) {
	rules := denying{names: map[string]bool{"a": true}, off: everyUse}
	for _, tc := range []struct {
		name     string
		form     Form
		url      string
		judge    Judge
		narrower bool
		listed   bool
		want     bool
	}{
		{"a client with a list", bareForm, cds, rules, true, true, true},
		{"a client without a list", bareForm, cds, rules, true, false, false},
		{"rules that allow more", bareForm, cds, rules, false, true, false},
		{"rules that do not look at names", bareForm, cds, nil, true, true, false},
		{"a type without lists", bareForm, eds, rules, true, true, false},
		{"a client without lists", Form{}, cds, rules, true, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(tc.form)
			c.sub(tc.url, "*")
			b.connect(0)
			b.says(tc.url, "+a@1", "+b@1")
			if tc.listed {
				c.lists()
			}
			c.s.JudgedBy(tc.judge, tc.narrower)
			if got := c.c.find(tc.url).list.relist; got != tc.want {
				t.Errorf("a list is due: %t, want %t", got, tc.want)
			}
			if tc.want {
				b.expect(c.lists(), "CDS b1")
			}
			c.c.find(tc.url).list.relist = true
			if c.s.JudgedBy(nil, false); !c.c.find(tc.url).list.relist {
				t.Error("a list is not due any more that was due before")
			}
		})
	}
}
