package resolve

// Renew says that Sources may answer otherwise from now on, by another configuration,
// and gives the settings that are in force then. Everything is looked for again. Until
// something else is known, clients keep what they hold. It may be called from any
// goroutine and does not block.
func (r *Resolver) Renew(s Settings) {
	r.mu.Lock()
	r.renewed = &s
	r.mu.Unlock()
	r.wakeUp()
}

// renew has all globs and nodes look again, if Renew was called. Such a look lets go
// of a name that has no place any more.
func (r *Resolver) renew() {
	r.mu.Lock()
	s := r.renewed
	r.renewed = nil
	r.mu.Unlock()
	if s == nil {
		return
	}
	r.settings = *s
	for _, g := range r.globs.all {
		g.renew()
	}
	for _, n := range r.nodes.all {
		n.touch()
	}
}

// renew finds out where the glob is to be had now. If that is still where it is served
// from, that goes on; else the first place begins anew, like one that is turned to.
func (g *glob) renew() {
	before := g.places
	g.places = g.resolver.placesOf(g.name)
	if !g.began || g.serves >= len(g.places) || !g.places[g.serves].same(before[g.serves]) {
		g.serves, g.began = 0, false
	}
	g.touch()
}

// same reports whether it is the same place, of the same upstream.
func (p place) same(other place) bool {
	return p.upstream == other.upstream && p.name.Resolved() == other.name.Resolved()
}
