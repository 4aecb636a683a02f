package delivery

import (
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// The relay counts the changes that later ones replaced before a client was sent them. What the client is not told, for
// whatever reason, was not replaced.
func TestMergedIsExact_OPS3(t *testing.T) {
	full := Form{State: true}
	for _, tc := range []struct {
		name   string
		form   Form
		url    string
		subs   []string
		denied string
		before string   // what the server has; ">" before what it says on the second stream
		steps  []string // what it says, word by word, until the client collects; "!" before an error, "^" before what is not kept, "later" when time passes
		want   []int    // merged with each step
	}{
		{"changes of members", Form{}, eds, []string{"*"}, "", "+a@1 +b@1", []string{"+a@2", "+a@3 +a@4 +a@5", "+b@2 +a@6"}, []int{0, 2, 0}},
		{"changes of a glob's members", Form{}, eds, []string{globG}, "", "+" + nameG1 + "@1", []string{"+" + nameG1 + "@2", "+" + nameG1 + "@3 +" + nameG1 + "@4"}, []int{0, 1}},
		{"changes of names", Form{}, eds, []string{"a", "b"}, "", "+a@1 +b@1", []string{"+a@2", "+a@3 +a@4 +b@2", "+b@3 +b@4 +b@5 +a@5 +a@6"}, []int{0, 1, 3}},
		{"removals of members", Form{}, eds, []string{"*"}, "", "+a@1 +b@1 +c@1", []string{"-a", "+c@2 -b", "+c@3"}, []int{0, 0, 0}},
		{"SUB-12 members that are named too", Form{}, eds, []string{"*", "a"}, "", "+a@1 +b@1 >+a@1", []string{"+a@2", "+b@2", "-a", "+b@3"}, []int{0, 0, 0, 0}},
		{"ACC-3 members that the client may not have", Form{}, eds, []string{"*"}, "a", "+a@1 +b@1", []string{"+a@2", "+b@2", "+a@3 +b@3", "-a", "+b@4"}, []int{0, 0, 0, 0, 0}},
		{"ACC-3 they go with others", Form{}, eds, []string{"*"}, "a", "+a@1 +b@1 +c@1", []string{"-b -a", "+c@2"}, []int{0, 0}},
		{"RES-7 members of which a name is not answered", Form{}, eds, []string{"*", "a"}, "", "+a@1 +b@1", []string{"-a", "+b@2"}, []int{0, 0}},
		{"ERR-1 members of which a name has an error", Form{}, eds, []string{globG, nameG1}, "", "+" + nameG1 + "@1 +" + nameG2 + "@1", []string{"-" + nameG1 + " !" + nameG1, "+" + nameG2 + "@2"}, []int{1, 0}},
		{"GLOB-5 members of a glob too", Form{}, eds, []string{"*", globG}, "", "+" + nameG1 + "@1 +b@1 >+" + nameG1 + "@1", []string{"-" + nameG1, "+b@2"}, []int{0, 0}},
		{"TTL-2 members that the client drops by itself", timed, eds, []string{"*"}, "", "+a@1~1m +b@1", []string{"later", "+b@2"}, []int{0, 0}},
		{"RES-3 state of the world: changes", full, eds, []string{"*"}, "", "+a@1 +b@1", []string{"+a@2", "+a@3 +a@4", "+b@2"}, []int{0, 1, 0}},
		{"RES-3 state of the world: removals", full, eds, []string{"*"}, "", "+a@1 +b@1 +c@1", []string{"-a", "+b@2", "-c +b@3"}, []int{0, 0, 0}},
		{"RES-2 lists: changes", full, cds, []string{"*"}, "", "+a@1 +b@1", []string{"+a@2", "+a@3 +a@4 +a@5", "+b@2 +a@6"}, []int{0, 2, 0}},
		{"RES-2 lists: removals", full, cds, []string{"*"}, "", "+a@1 +b@1 +c@1", []string{"-a", "-b +c@2", "+c@3"}, []int{0, 0, 0}},
		{"STR-7 lists: the same again that is not kept", full, cds, []string{"*"}, "", "^a@1 +b@1", []string{"^a@1", "+b@2"}, []int{0, 0}},
		{"RES-2 lists: names", full, cds, []string{"a", "b"}, "", "+a@1 +b@1", []string{"+a@2", "+a@3 +a@4", "+b@2"}, []int{0, 1, 0}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c := b.joinAs(tc.form)
				c.s.JudgedBy(denying{names: map[string]bool{tc.denied: true}, off: everyUse}, false)
				if tc.denied == "" {
					c.s.JudgedBy(nil, false)
				}
				c.sub(tc.url, tc.subs...)
				b.connect(0)
				b.connect(1)
				says := func(words string) {
					for word := range strings.FieldsSeq(words) {
						second, on := strings.CutPrefix(word, ">")
						failed, fails := strings.CutPrefix(word, "!")
						switch {
						case word == "later":
							b.after(time.Hour)
						case on:
							b.saysOn(1, tc.url, second)
						case strings.HasPrefix(word, "^"):
							b.once(tc.url, word[1:])
						case fails:
							b.fails(tc.url, failed, unavailable)
						default:
							b.says(tc.url, word)
						}
					}
				}
				merged := func() (n int) {
					if tc.form.State {
						c.lists()
					} else {
						c.collect()
					}
					for _, b := range c.took {
						n += b.Merged
					}
					return n
				}
				says(tc.before)
				b.settle()
				merged()
				for i, words := range tc.steps {
					says(words)
					if got := merged(); got != tc.want[i] {
						t.Errorf("%d changes are merged by %q, want %d", got, words, tc.want[i])
					}
				}
			})
		})
	}
}

// What was merged away is counted with the next response of its type, if nothing is left to be sent of it.
func TestMergedOfTypes_OPS3(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.s.JudgedBy(denying{names: map[string]bool{"hidden": true}, off: everyUse}, false)
	c.sub(cds, "*")
	c.sub(eds, "*")
	b.connect(0)
	b.says(cds, "+a@1")
	b.says(eds, "+a@1")
	c.collect()
	for _, step := range []struct {
		cds, eds string
		want     map[string]int
	}{
		{"+a@2", "+hidden@1 +hidden@2 +hidden@3", map[string]int{cds: 0}}, // no response has them
		{"+a@3", "", map[string]int{cds: 0}},
		{"+a@4 +a@5", "+a@2", map[string]int{cds: 1, eds: 2}},
		{"", "+a@3 +a@4", map[string]int{eds: 1}},
	} {
		for url, words := range map[string]string{cds: step.cds, eds: step.eds} {
			for word := range strings.FieldsSeq(words) {
				b.says(url, word)
			}
		}
		c.collect()
		got := map[string]int{}
		for _, b := range c.took {
			got[b.TypeURL] += b.Merged
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("%q and %q: merged %v, want %v", step.cds, step.eds, got, step.want)
		}
	}
}

// What changed before a client was sent anything replaced nothing, and what changed since it subscribed did.
func TestMergedSinceBeginning_OPS3(t *testing.T) {
	for _, tc := range []struct {
		name   string
		form   Form
		url    string
		sub    string
		denied string
	}{
		{"*", Form{}, eds, "*", ""},
		{"a name", Form{}, eds, "b", ""},
		{"* of a client that may not have all", Form{}, eds, "*", "a"},
		{"a list", bareForm, cds, "*", ""},
		{"a list of names", bareForm, cds, "b", ""},
		{"state of the world", bareForm, eds, "*", ""},
	} {
		for says, want := range map[string]int{"": 0, "+b@2": 0, "+b@2 +b@3": 1, "+b@2 +b@3 +b@4": 2} {
			b := newBed(t, cache.Limits{})
			b.join().sub(tc.url, tc.sub)
			b.connect(0)
			b.says(tc.url, "+b@0")
			b.says(tc.url, "+b@1")
			if tc.sub == "*" {
				b.says(tc.url, "+a@1")
			}
			c := b.joinAs(tc.form)
			if tc.denied != "" {
				c.s.JudgedBy(denying{names: map[string]bool{tc.denied: true}, off: everyUse}, false)
			}
			c.sub(tc.url, tc.sub)
			for word := range strings.FieldsSeq(says) {
				b.says(tc.url, word)
			}
			if tc.form.State {
				c.lists()
			} else {
				c.collect()
			}
			n := 0
			for _, b := range c.took {
				n += b.Merged
			}
			if n != want {
				t.Errorf("%s: %d changes are merged by %q, want %d", tc.name, n, says, want)
			}
		}
	}
}

// A member that is withheld from a client was not replaced (SUR-1).
func TestMergedWithheld_OPS3_SUR1(t *testing.T) {
	b := newBed(t, cache.Limits{})
	b.join().sub(lds, "*")
	b.connect(0)
	b.says(lds, "+a@1", "+b@1")
	b.settle()
	image := b.store.Snapshots().Image(nothing)
	b = newBedOf(t, cache.Limits{}, b.source)
	c := b.join()
	c.resume(lds, []string{"a@2", "b@2"}, "*")
	b.restore(image)
	b.expect(c.collect())
	b.connect(0)
	b.says(lds, "+c@1")
	b.expect(c.collect(), "LDS +c@1")
	if n := c.took[0].Merged; n != 0 {
		t.Errorf("%d changes are merged", n)
	}
}

// A removal that the client was told with the error of the name was not replaced (ERR-1, GLOB-5).
func TestMergedWithError_OPS3_ERR1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter})
		c := b.join()
		c.sub(cds, globG, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.elapses(quiet)
		c.collect()
		b.says(cds, "-"+nameG1)
		b.demand(0)
		b.fails(cds, nameG1, unavailable)
		b.elapses(absentAfter)
		b.expect(c.collect(), "CDS -"+nameG1+" !"+nameG1)
		merged := c.took[0].Merged // the error of the name took the place of its removal
		b.says(cds, "+"+nameG2+"@2")
		b.expect(c.collect(), "CDS +"+nameG2+"@2")
		if merged += c.took[0].Merged; merged != 1 {
			t.Errorf("%d changes are merged, want 1", merged)
		}
	})
}
