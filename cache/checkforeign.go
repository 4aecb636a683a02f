package cache

// checkForeign verifies what the client holds of other scopes, and of what went without a
// word.
func (w *watch) checkForeign(c *checker) {
	foreign := 0
	for sub := range w.names.all() {
		name := sub.spelling
		if sub.holdsForeign() {
			foreign++
		}
		silent := w.client.form.State && !w.full
		c.that(sub.was != forgone || silent, "%q went without a word, and there is one", name)
		c.that(!sub.holdsForeign() || sub.holds || silent, "%q is held from another scope, and not held", name)
	}
	c.that(foreign == w.foreign, "%d names are held from another scope, counted as %d", foreign, w.foreign)
	c.that(!w.moving || (w.full && !w.listed && w.presented != ""), "a list is to come that nothing waits for")
	for f := range w.cursors() {
		h := f.moved
		c.that(f.versions == nil || f.versions.doubted == nil || f.coll.wildcard(), "%q: versions are doubted under globs", f.name)
		if h == nil {
			continue
		}
		c.that(!h.empty(), "%q: nothing is left of another scope, and that is kept", f.name)
		c.that(!h.over || h.base == nil, "%q: all was compared, and what with is kept", f.name)
		c.that(len(h.doubted) == 0 || f.coll.wildcard(), "%q: what is held is doubted under globs", f.name)
		for key, r := range h.own {
			c.that(r != nil || (h.base != nil && h.base.members[key] != nil), "%q: %q is not held, as if it could be", f.name, key)
		}
	}
}
