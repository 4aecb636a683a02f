package cache

import (
	"fmt"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"github.com/xdsrelay/xdsrelay/keyer"
	"pgregory.net/rapid"
)

// constraintsFor reads constraints as words.Constraints does, none for "".
func constraintsFor(text string) *keyer.Constraints {
	if text == "" {
		return nil
	}
	c, err := keyer.ParseConstraints([]byte(words.Encode(words.Constraints(text))))
	if err != nil {
		panic(err)
	}
	return c
}

// offer brings a variant in the response of a number.
func (v *variantSet) offer(constraints string, mark uint32) *variant {
	c := constraintsFor(constraints)
	v.put(c, &wire.Resource{Name: v.key, Version: fmt.Sprint(constraints, "@", mark)}, time.Time{}, mark)
	return v.held[c.Key()]
}

// found is the version that matches parameters, "" for none.
func (v *variantSet) found(word string) (version string, n int) {
	best, n := v.match(wire.Parameters(words.Locator(word)))
	if best == nil {
		return "", n
	}
	return best.res.Version, n
}

func TestVariantSet(t *testing.T) {
	for _, tc := range []struct {
		name    string
		state   bool
		located bool // somebody asks with parameters
		fill    func(v *variantSet)
		want    string // for x{env=prod}
		matches int
	}{
		{"DYN-1 none", false, true, func(*variantSet) {}, "", 0},
		{"DYN-1 none that matches", false, true, func(v *variantSet) { v.offer("env=test", 1) }, "", 0},
		{"DYN-1 the one that matches", false, true, func(v *variantSet) {
			v.offer("env=test", 1)
			v.offer("env=prod", 1)
		}, "env=prod@1", 1},
		{"DYN-1 one without constraints is for everybody", false, true, func(v *variantSet) { v.offer("", 1) }, "@1", 1},
		{"DYN-1 of two the least constraints", false, true, func(v *variantSet) {
			v.offer("env=prod", 2)
			v.offer("env", 1)
		}, "env@1", 2},
		{"DYN-1 RES-12 a confirmed one goes before one of an older stream", false, true, func(v *variantSet) {
			v.offer("env", 1).stale = true
			v.offer("env=prod", 2)
		}, "env=prod@2", 1},
		{"DYN-1 RES-8 in the state of the world the last one", true, true, func(v *variantSet) {
			v.offer("env", 1)
			v.offer("env=prod", 2)
		}, "env=prod@2", 1},
		{"DYN-1 the last one where nobody asks with parameters", false, false, func(v *variantSet) {
			v.offer("", 1)
			v.offer("env=prod", 2)
		}, "env=prod@2", 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			v := newVariantSet("x", tc.state)
			if tc.located {
				v.locate(newEntry(words.Locator("x{a=b}")))
			}
			tc.fill(v)
			if got, n := v.found("x{env=prod}"); got != tc.want || n != tc.matches {
				t.Errorf("found %q of %d, want %q of %d", got, n, tc.want, tc.matches)
			}
		})
	}
}

// Replicas are told of variants in different orders and choose the same one.
func TestDYN1_VariantSetChoosesTheSameInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"", "env", "env=prod", "!env", "env=prod,version", "version=v1", "!version",
		}), 1, 5, rapid.ID).Draw(t, "variants")
		shuffled := rapid.Permutation(texts).Draw(t, "order")
		word := rapid.SampledFrom([]string{"x", "x{env=prod}", "x{env=prod version=v1}", "x{version=v1}"}).Draw(t, "parameters")
		one, other := newVariantSet("x", false), newVariantSet("x", false)
		for _, v := range []*variantSet{one, other} {
			v.locate(newEntry(words.Locator(word)))
		}
		for i := range texts {
			one.offer(texts[i], 1)
			other.offer(shuffled[i], 1)
		}
		got, n := one.found(word)
		again, m := other.found(word)
		if got != again || n != m {
			t.Errorf("%s: found %q of %d, in another order %q of %d", word, got, n, again, m)
		}
	})
}

// What an entry leaves behind is nobody's, and what others need stays.
func TestDYN1_SUB13_VariantSetForgetsWhatIsNobodys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := newVariantSet("x", false)
		plain := rapid.Bool().Draw(t, "somebody wants the plain name")
		texts := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"x{env=prod}", "x{env=test}", "x{env=prod version=v1}", "x{version=v1}",
		}), 1, 4, rapid.ID).Draw(t, "entries")
		var entries []*Entry
		for _, word := range texts {
			e := newEntry(words.Locator(word))
			v.locate(e)
			entries = append(entries, e)
		}
		for _, c := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"", "env=prod", "env=test", "!env", "version=v1", "other",
		}), 0, 6, rapid.ID).Draw(t, "variants") {
			v.offer(c, 1)
		}
		v.settle(nil, plain)
		for i, e := range entries {
			before := make(map[string]string)
			for _, other := range texts[i+1:] {
				before[other], _ = v.found(other)
			}
			v.leave(e, plain)
			for key, h := range v.held {
				if !v.isFor(h, plain) {
					t.Errorf("a variant for %s is held for nobody", key)
				}
			}
			for other, was := range before {
				if is, _ := v.found(other); is != was {
					t.Errorf("%s had %q, and has %q since another one left", other, was, is)
				}
			}
		}
		if len(v.located)+len(v.serving)+len(v.borrowing) > 0 {
			t.Error("something is left of the entries")
		}
		if v.needed() && !plain {
			t.Errorf("%d variants are kept for nobody", len(v.held))
		}
	})
}

func TestDYN1_VariantSetOfAResponse(t *testing.T) {
	v := newVariantSet("x", false)
	v.locate(newEntry(words.Locator("x{env=prod}")))
	once := &wire.Resource{Name: "x", Version: "once", DoNotCache: true}
	v.put(constraintsFor("env=prod"), once, time.Time{}, 1)
	v.offer("env=test", 1)
	v.touched = true
	v.remove(nil)
	if !v.denied {
		t.Error("the removal of the name is not noted")
	}
	serves, _ := v.match(wire.Parameters(words.Locator("x{env=prod}")))
	if got := v.settle(map[*variant]bool{serves: true}, false); got != 1 {
		t.Errorf("%d variants came for nobody, want 1", got)
	}
	if v.touched || v.denied || serves.fresh {
		t.Error("the response is over, and it is not settled")
	}
	if len(v.held) != 1 || serves.res != nil {
		t.Errorf("TTL-5: %d variants are held, the content that is not to be cached: %t", len(v.held), serves.res != nil)
	}
	if !v.removeOlder(2) || len(v.held) != 0 {
		t.Error("RES-8: a variant that the next list does not hold is held")
	}
	if v.removeOlder(2) {
		t.Error("something was removed from nothing")
	}
}

// The variant that an entry holds goes when its ttl runs out, and no other (TTL-2, DYN-1).
func TestVariantSet_TTL2_expired(t *testing.T) {
	v := newVariantSet("x", false)
	e := newEntry(words.Locator("x{env=prod}"))
	v.locate(e)
	held, other := v.offer("env=prod", 1), v.offer("env=qa", 1)
	e.res, e.state = held.res, Present
	v.serving[e] = held
	v.expired(e)
	if v.held[held.constraints.Key()] != nil || v.serving[e] != nil {
		t.Error("the variant that ran out is still held")
	}
	if v.held[other.constraints.Key()] != other {
		t.Error("another variant is gone")
	}
}

// A variant of the stream before is believed less than one of this stream. In the state of the world the last one
// counts, and so it does between one with constraints and one without while nobody asks with parameters.
func TestVariantSetBefore_DYN1(t *testing.T) {
	env := constraintsFor("env")
	young, old := variant{constraints: env, response: 2}, variant{constraints: env, response: 1}
	plain, stale := variant{response: 1}, variant{constraints: env, response: 3, stale: true}
	for _, tc := range []struct {
		name    string
		state   bool
		located bool
		a, b    variant
		want    int
	}{
		{"stale", false, true, young, stale, -1},
		{"stale in the state of the world", true, true, young, stale, -1},
		{"alike", false, true, young, old, 0},
		{"last list", true, true, young, old, -1},
		{"silent", false, false, young, plain, -1},
		{"with demand for parameters", false, true, young, plain, 0},
		{"nobody asks, but both have constraints", false, false, young, old, 0},
	} {
		v := newVariantSet("x", tc.state)
		if tc.located {
			v.locate(newEntry(words.Locator("x{a=b}")))
		}
		if got, back := v.before(&tc.a, &tc.b), v.before(&tc.b, &tc.a); got != tc.want || back != -tc.want {
			t.Errorf("%s: %d, and the other way round %d, want %d", tc.name, got, back, tc.want)
		}
	}
}

// An entry is undecided that the server has not spoken of: it is unknown, or has a variant of the stream before.
func TestVariantSetUndecided_DYN1(t *testing.T) {
	v := newVariantSet("x", false)
	for i, tc := range []struct {
		word      string
		state     State
		variant   string
		stale     bool
		undecided int // until here
	}{
		{"x{env=a}", Absent, "", false, 0},
		{"x{env=b}", Unknown, "", false, 1},
		{"x{env=c}", Present, "env=c", false, 1},
		{"x{env=d}", Unknown, "env=d", false, 1},
		{"x{env=e}", Present, "env=e", true, 2},
		{"x{env=f}", Failed, "", false, 2},
		{"x{env=g}", Unknown, "", false, 3},
	} {
		e := newEntry(words.Locator(tc.word))
		e.state = tc.state
		v.locate(e)
		if tc.variant != "" {
			v.offer(tc.variant, 1).stale = tc.stale
		}
		if got := v.undecided(); got != tc.undecided {
			t.Errorf("after %d entries %d are undecided, want %d", i+1, got, tc.undecided)
		}
	}
}

// A response brings a variant for nobody if it is new, and no entry is served it or could be.
func TestVariantSetUnsolicited_SUB13(t *testing.T) {
	for _, tc := range []struct {
		fresh, used, wanted bool
		want                int
	}{
		{true, false, false, 1},
		{true, false, true, 0},
		{true, true, false, 0},
		{false, false, false, 0},
		{false, true, true, 0},
	} {
		v := newVariantSet("x", false)
		if tc.wanted {
			v.locate(newEntry(words.Locator("x{env=prod}")))
		} else {
			v.locate(newEntry(words.Locator("x{env=test}")))
		}
		h := v.offer("env=prod", 1)
		h.fresh = tc.fresh
		if got := v.settle(map[*variant]bool{h: tc.used}, false); got != tc.want {
			t.Errorf("%+v: %d variants came for nobody", tc, got)
		}
	}
}

// After a response variants go that no entry is served, and that the server may not have any more. Else they stay
// as long as they could be for an entry.
func TestVariantSetPrune_RES8_RES12(t *testing.T) {
	for _, tc := range []struct {
		name        string
		response    bool
		state       bool
		stale       bool
		constraints string
		located     string // "": no entry with parameters
		used, held  bool
	}{
		{"served", true, true, true, "env=prod", "x{env=prod}", true, true},
		{"of the stream before", true, false, true, "env=prod", "x{env=prod}", false, false},
		{"of the stream before, without a response", false, false, true, "env=prod", "x{env=prod}", false, true},
		{"in the state of the world", true, true, false, "env=prod", "x{env=prod}", false, false},
		{"in the state of the world, without a response", false, true, false, "env=prod", "x{env=prod}", false, true},
		{"for an entry that has another one", true, false, false, "env=prod", "x{env=prod}", false, true},
		{"without constraints for an entry that has another one", true, false, false, "", "x{env=prod}", false, true},
		{"replaced without a word", true, false, false, "", "", false, false},
		{"without constraints, without a response", false, false, false, "", "", false, true},
		{"for the plain name", true, false, false, "!env", "", false, true},
		{"for nobody", true, false, false, "env=test", "x{env=prod}", false, false},
		{"for nobody, without a response", false, false, false, "env=test", "x{env=prod}", false, false},
	} {
		v := newVariantSet("x", tc.state)
		if tc.located != "" {
			v.locate(newEntry(words.Locator(tc.located)))
		}
		h := v.offer(tc.constraints, 1)
		h.stale = tc.stale
		var used map[*variant]bool
		if tc.response {
			used = map[*variant]bool{h: tc.used}
		}
		v.prune(used, true)
		if held := len(v.held) == 1; held != tc.held {
			t.Errorf("%s: held %t", tc.name, held)
		}
	}
}

// A set is kept while it says more than the plain entry.
func TestVariantSetNeeded_DYN1(t *testing.T) {
	for name, tc := range map[string]struct {
		fill func(v *variantSet)
		want bool
	}{
		"empty":               {func(*variantSet) {}, false},
		"without constraints": {func(v *variantSet) { v.offer("", 1) }, false},
		"with constraints":    {func(v *variantSet) { v.offer("env", 1) }, true},
		"both":                {func(v *variantSet) { v.offer("", 1); v.offer("env", 1) }, true},
		"asked for":           {func(v *variantSet) { v.locate(newEntry(words.Locator("x{a=b}"))) }, true},
		"in a response":       {func(v *variantSet) { v.touched = true }, true},
	} {
		v := newVariantSet("x", false)
		tc.fill(v)
		if v.needed() != tc.want {
			t.Errorf("%s: needed %t", name, v.needed())
		}
	}
}

// What is served to a name with parameters lives no longer than the plain name's, which came with its ttl.
func TestVariantsOfPlain_TTL2_DYN1(t *testing.T) {
	k := newKept(t)
	l := k.listener(NeedsStream | NeedsTTL)
	l.watch("x")
	k.demand(WholeType)
	k.says(WholeType, "+x@1~10s")
	k.says(WholeType, "=x@1~10s")
	l.watch(words.Locator("x{env=prod}"))
	k.check()
	tbl := k.store.FindTable(cds, ByName)
	plain, located := tbl.Find("x"), tbl.Find(words.Locator("x{env=prod}"))
	if located.res != plain.res || !located.extra.life.deadline.Equal(plain.extra.life.deadline) {
		t.Errorf("it is served until %v, the plain one until %v", located.extra.life.deadline, plain.extra.life.deadline)
	}
}
