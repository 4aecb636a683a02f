package delivery

import (
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// A variant is removed with its constraints when no subscription has it any more. A client that may know nothing of
// variants is told the name, too (DYN-1).
func TestRemoveVariant_DYN1(t *testing.T) {
	variant, plain := wire.Variant{Name: "x", Constraints: "c"}, wire.Variant{Name: "x"}
	for _, tc := range []struct {
		name           string
		had            wire.Variant // by the subscription that is told
		others         int          // subscriptions that have the same
		aware, located bool
		names, gone    string
	}{
		{"a variant", variant, 0, false, false, "x", "x:c"},
		{"a variant of a client with parameters", variant, 0, true, false, "", "x:c"},
		{"a variant by a name with parameters", variant, 0, false, true, "", "x:c"},
		{"a variant that another name has", variant, 1, false, false, "x", ""},
		{"a variant that another name has, of a client with parameters", variant, 1, true, false, "", ""},
		{"a variant that another name has, by a name with parameters", variant, 1, false, true, "", ""},
		{"a resource without constraints", plain, 0, true, false, "x", ""},
		{"a resource without constraints that another name has", plain, 1, true, true, "x", ""},
		{"nothing", wire.Variant{}, 0, true, true, "x", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newBed(t, cache.Limits{}).join()
			c.sub(cds, "x")
			w := c.c.find(cds)
			w.variants = w.variants.begin()
			w.variants.aware = tc.aware
			w.variants.swap("told", tc.had)
			for i := range tc.others {
				w.variants.swap(i, tc.had)
			}
			wr := &writer{size: 1 << 10, left: 1}
			wr.turn(w, cache.ByName)
			if !wr.removeVariant("told", tc.located, "x") {
				t.Fatal("there is no room")
			}
			if tc.names == "" && tc.gone == "" {
				if len(wr.out) > 0 {
					t.Error("there is a response though nothing is to be told")
				}
				return
			}
			var gone []string
			for _, g := range wr.gone {
				gone = append(gone, g.variant.Name+":"+g.variant.Constraints)
			}
			names := strings.Join(wr.cur.Body.RemovedNames(), " ")
			if gone := strings.Join(gone, " "); names != tc.names || gone != tc.gone {
				t.Errorf("it tells the names %q and the variants %q, want %q and %q", names, gone, tc.names, tc.gone)
			}
			if _, has := w.variants.by["told"]; has {
				t.Error("the subscription still has something")
			}
		})
	}
}

// At the end of a delivery the variants are removed that nobody has, each once.
func TestSayGone_DYN1(t *testing.T) {
	for _, tc := range []struct {
		name    string
		variant wire.Variant
		held    bool // another subscription was sent it meanwhile
		told    bool // the name is told already
		want    int  // removals in the response
	}{
		{"a variant", wire.Variant{Name: "x", Constraints: "c"}, false, false, 1},
		{"a variant beside its name", wire.Variant{Name: "x", Constraints: "c"}, false, true, 2},
		{"a variant that came again", wire.Variant{Name: "x", Constraints: "c"}, true, false, 0},
		{"without constraints", wire.Variant{Name: "x"}, false, false, 1},
		{"without constraints beside its name", wire.Variant{Name: "x"}, false, true, 1},
	} {
		c := newBed(t, cache.Limits{}).join()
		c.sub(cds, "x")
		w := c.c.find(cds)
		w.variants = w.variants.begin()
		wr := &writer{size: 1 << 10, left: 1}
		wr.turn(w, cache.ByName)
		wr.room(0)
		if tc.told {
			wr.remove("x")
		}
		if tc.held {
			w.variants.swap("other", tc.variant)
		}
		wr.leave(tc.variant)
		wr.sayGone()
		if got := wr.cur.Body.Removed(); got != tc.want || len(wr.gone) > 0 {
			t.Errorf("%s: %d removals, want %d; %d are left", tc.name, got, tc.want, len(wr.gone))
		}
	}
}
