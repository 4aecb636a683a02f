package cache

import "github.com/xdsrelay/xdsrelay/internal/wire"

// checkVariants verifies what is known of names with variants (DYN-1).
func checkVariants(c *checker, t *table) {
	located := 0
	for key, v := range t.variants.sets {
		c.that(v.key == key && !v.touched && !v.denied, "the variants of %q are not settled", key)
		c.that(len(v.located) > 0 || len(v.held) > 0, "nothing is known of the variants of %q", key)
		located += len(v.located)
		for e := range v.located {
			c.that(t.entries[e.key] == e && plainKey(e.key) == key, "%q is listed as a locator of %q", e.key, key)
		}
		for constraints, h := range v.held {
			c.that(h.constraints.Key() == constraints, "a variant of %q stands under other constraints than its own", key)
			c.that(h.res == nil || !sameMemory(v.key, h.res.Name), "the key of the variants of %q lies in what may go", key)
			c.that(!h.fresh && (h.res == nil || !h.res.DoNotCache), "a variant of %q is not settled", key)
			c.that(v.isFor(h, plainWanted(t, v)), "a variant of %q is for nobody", key)
		}
		for e := range v.borrowing {
			_, located := v.located[e]
			c.that(located, "%q borrows, and is no locator", e.key)
		}
		v.checkServing(c)
	}
	for key, e := range t.entries {
		if wire.IsLocator(key) {
			located--
			c.that(e.coll == nil && !e.alias, "%q is more than a locator", key)
		}
	}
	c.that(located == 0, "%d more locators are listed than there are", located)
}

// checkServing verifies that each entry holds what matches it.
func (v *variantSet) checkServing(c *checker) {
	for e, h := range v.serving {
		if e.res == nil || h.res == nil {
			continue
		}
		c.that(e.res.SameContent(h.res), "%q holds another variant than the one that was matched", e.key)
		c.that(h.constraints.Match(v.located[e]), "%q holds a variant that does not match", e.key)
	}
}

// checkVariants verifies what is known of what the client was sent with constraints.
func (w *watch) checkVariants(c *checker) {
	located := 0
	for sub := range w.names.all() {
		if sub.located() {
			located++
		}
	}
	c.that(located == w.located, "%d names with parameters counted as %d", located, w.located)
	if w.variants == nil {
		return
	}
	c.that(len(w.variants.left) == 0, "variants that a subscription left are nobody's")
	holders := make(map[wire.Variant]int)
	for who, v := range w.variants.by {
		holders[v]++
		switch of := who.(type) {
		case *nameSub:
			c.that(!of.ended, "%q ended, and its variant is remembered", v.Name)
		case *entry:
			c.that(of.res == nil || !sameMemory(v.Name, of.res.Name), "what is remembered of %q lies in what may go", v.Name)
		}
	}
	for v, n := range w.variants.holders {
		c.that(n == holders[v], "%d hold a variant of %q, counted as %d", holders[v], v.Name, n)
	}
	c.that(len(holders) == len(w.variants.holders), "%d variants are held, counted as %d", len(holders), len(w.variants.holders))
}
