package cache

// Arrangement is how far a stream has come that was moved.
type Arrangement struct {
	Left  int // how much the client may hold of other scopes
	Lists int // of that, of full-state types in the state of the world

	first, unsettled Rank
}

// Arrange puts what is left of other scopes into its order over all places of a stream in
// stores, make-before-break (ADS-1): what is of one scope goes on being used together until
// what takes its place can be. It is to be called before the stream collects, as long as
// it says that something is left. Then a type with contents of another scope waits for the
// earlier types that have some of which nobody knows yet what they are here, and removals
// of clusters and endpoints wait until the later types are settled: settled is asked for
// each type, and told whether the client has been given all that there is of it now.
func Arrange(clients []*Client, settled func(typeURL string, given bool) bool) (a Arrangement) {
	given := make(map[string]bool)
	a.first = RankOther
	for _, c := range clients {
		c.store.mu.RLock()
		for _, w := range c.watches {
			left := w.left()
			if a.Left += left; w.full {
				a.Lists += left
			}
			pending := w.pending()
			if w.unseen() {
				a.first = min(a.first, w.rank)
			}
			before, known := given[w.typeURL]
			given[w.typeURL] = (before || !known) && !pending && !w.listDue() && (w.rank.waits() || !w.removalsDue())
		}
		c.store.mu.RUnlock()
	}
	for typeURL, all := range given {
		if !settled(typeURL, all) {
			a.unsettled = max(a.unsettled, RankOf(typeURL))
		}
	}
	if a.Left == 0 {
		a = Arrangement{}
	}
	for _, c := range clients {
		c.moving, c.first, c.unsettled = a.Left > 0, a.first, a.unsettled
	}
	return a
}

// left is how much the client may hold of other scopes.
func (w *watch) left() int {
	n := w.foreign
	for f := range w.cursors() {
		n += f.moved.size()
		if f.moved != nil && (!f.moved.over || f.moved.lost) {
			n++
		}
	}
	if w.moving {
		n++
	}
	return n
}

// Stranded gives something of another scope that the client cannot be told is gone: it is
// of the state of the world, where only lists of full-state types have a word for that, and
// still subscribes to it (RES-3).
func (c *Client) Stranded() (typeURL, name string, found bool) {
	if !c.form.State {
		return "", "", false
	}
	c.store.mu.RLock()
	defer c.store.mu.RUnlock()
	for _, w := range c.watches {
		if w.full {
			continue
		}
		for sub := range w.names.all() {
			if sub.holdsForeign() && sub.nothingHere() {
				return w.typeURL, sub.shown(), true
			}
		}
		for f := range w.cursors() {
			if f.moved != nil && f.moved.over {
				return w.typeURL, f.name, true
			}
		}
	}
	return "", "", false
}
