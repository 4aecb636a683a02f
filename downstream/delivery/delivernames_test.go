package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A client is told once that there is nothing behind a name, whatever becomes of what it may not have. When there is
// something that it may have it is told that, and then again that there is nothing (ACC-3).
func TestKnowsAbsent_ACC3(t *testing.T) {
	for name, tc := range map[string]struct {
		form                 Form
		gone, other, nothing string
	}{
		"incremental": {Form{}, "CDS -a", "CDS +y@1", "CDS -a -y"},
		"lists":       {bareForm, "CDS !a", "CDS y1", "CDS"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(tc.form)
			c.s.JudgedBy(denying{names: map[string]bool{"x": true}, off: everyUse}, false)
			c.sub(cds, "a")
			b.connect(0)
			says := func(want []string, words ...string) {
				t.Helper()
				b.says(cds, words...)
				if tc.form.State {
					b.expect(c.lists(), want...)
				} else {
					b.expect(c.collect(), want...)
				}
			}
			says([]string{tc.gone}, "+x@1|a")
			says(nil, "+x@2|a")
			says(nil, "-x")
			says([]string{tc.other}, "+y@1|a")
			says([]string{tc.nothing}, "+x@3|a", "-y")
			says(nil, "+x@4|a")
			says([]string{tc.other}, "+y@1|a", "-x")
			says([]string{tc.nothing}, "-y")
			says(nil, "+x@5|a")

			late := b.joinAs(tc.form) // which is told first that there is nothing
			late.s.JudgedBy(denying{names: map[string]bool{"x": true}, off: everyUse}, false)
			b.says(cds, "-x")
			late.sub(cds, "late")
			b.demand(0)
			for i, words := range []string{"-late", "+x@6|late", "+x@7|late"} {
				b.says(cds, words)
				got := late.lists
				if !tc.form.State {
					got = late.collect
				}
				if told := got(); (len(told) > 0) != (i == 0) {
					t.Errorf("by %q it is told %q", words, told)
				}
			}
		})
	}
}

// Rules that deny what a name stands for take that away, with its next change, and nothing else (ACC-3).
func TestDeniedLater_ACC3(t *testing.T) {
	b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
	c.s.JudgedBy(denying{off: everyUse}, false)
	b.says(cds, "+a@1")
	b.expect(c.collect(), "CDS +a@1")
	c.s.JudgedBy(denying{names: map[string]bool{"a": true}, off: everyUse}, true)
	b.says(cds, "+a@2")
	b.expect(c.collect(), "CDS -a")
	b.says(cds, "+a@3")
	b.expect(c.collect())
}

// Content that is not to be cached is sent to a client that holds other content (TTL-5, RES-11).
func TestHeldNameNotToCache_TTL5_RES11(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.presents(eds, "a@1", "a")
	b.connect(0)
	b.once(eds, "a@1")
	b.expect(c.collect())
	b.once(eds, "a@2")
	b.expect(c.collect(), "EDS +a@2")
}
