package resolve

import (
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/downstream/delivery"
	"github.com/xdsrelay/xdsrelay/keyer"
)

// What is taken of a tap at once: the rest has its turn after what else there is to do.
const (
	takeSize  = 1 << 20
	takeParts = 16
)

// tap is the resolver's place in the store of one upstream.
type tap struct {
	resolver *Resolver
	upstream Upstream
	source   Source

	// Globs have a reader of their own: of what it subscribes to in both ways a reader
	// is told once only.
	names, globs *delivery.Place
	leads        map[leadKey]*lead
	folds        map[leadKey]*fold

	wanted   map[string]*delivery.Change // by type: names that are to be subscribed to
	attached map[*fold][]*glob           // globs that are to be told everything that a fold has
	unused   []*lead
	unfolded []*fold

	reach reach     // of the upstream
	since time.Time // that it is not connected
	open  bool      // a stream to it stands nevertheless

	rung bool // guarded by Resolver.mu
}

// tapOf gives the tap of an upstream; nil if it cannot be asked: that is so while the
// relay ends, and in a configuration with which nothing is asked.
func (r *Resolver) tapOf(u Upstream) *tap {
	if t := r.taps[u.identity()]; t != nil {
		return t
	}
	t := &tap{
		resolver: r, upstream: u,
		leads: make(map[leadKey]*lead), folds: make(map[leadKey]*fold),
		wanted: make(map[string]*delivery.Change), attached: make(map[*fold][]*glob),
	}
	ring := func() { r.ring(t) }
	source, err := r.config.Sources.Open(u, ring)
	if err != nil {
		r.log.Debug("an upstream cannot be asked", "upstream", u.Name, "error", err)
		return nil
	}
	t.source = source
	t.names, t.globs = delivery.Read(source.Store(), ring), delivery.Read(source.Store(), ring)
	r.taps[u.identity()] = t
	ring() // what is known of the upstream is looked at like what changes of it
	return t
}

func (t *tap) close() {
	t.names.Leave()
	t.globs.Leave()
	t.source.Close()
	delete(t.resolver.taps, t.upstream.identity())
}

// lead finds or makes the lead of a name, for a node.
func (t *tap) lead(key leadKey, n *node) *lead {
	l := t.leads[key]
	if l == nil {
		l = &lead{tap: t, leadKey: key, users: make(map[*node]struct{})}
		t.leads[key] = l
		l.ask()
	}
	l.users[n] = struct{}{}
	return l
}

// fold finds or makes the fold of a glob, for a glob that it may serve.
func (t *tap) fold(key leadKey, g *glob) *fold {
	f := t.folds[key]
	if f == nil {
		f = &fold{tap: t, leadKey: key, users: make(map[*glob]struct{})}
		t.folds[key] = f
		t.attached[f] = nil // it is subscribed to, also for nodes that it does not serve yet
		t.resolver.visit(t)
	}
	f.users[g] = struct{}{}
	return f
}

// take takes what is new in the store, and reports whether something is left.
func (t *tap) take() (more bool) {
	taken, more, err := delivery.Take([]*delivery.Place{t.globs, t.names}, takeSize, takeParts)
	for _, x := range taken {
		t.resolver.changed(x.Received)
		if x.Reader == t.globs {
			t.tellFolds(x)
		} else {
			t.tellLeads(x)
		}
	}
	if err != nil {
		t.rejoin()
		return true
	}
	return more
}

func (t *tap) tellLeads(x *delivery.Taken) {
	of := func(key string) *lead { return t.leads[leadKey{x.TypeURL, key}] }
	for _, f := range x.Found {
		if l := of(f.Key); l != nil {
			l.take(found, f.Resource, nil, x.Last)
		}
	}
	for _, key := range x.Removed {
		if l := of(key); l != nil {
			l.take(absent, nil, nil, x.Last)
		}
	}
	for i := range x.Failed {
		if l := of(x.Failed[i].Key); l != nil {
			l.fail(&x.Failed[i].Error, x.Last)
		}
	}
	for _, key := range x.Late {
		if l := of(key); l != nil && l.state == unknown {
			l.late = true
			l.touch()
		}
	}
}

func (t *tap) tellFolds(x *delivery.Taken) {
	of := func(key string) *fold { return t.folds[leadKey{x.TypeURL, key}] }
	for _, m := range x.Found {
		if f := of(keyer.GlobOf(m.Key)); f != nil {
			f.found(m, x.Last)
		}
	}
	for _, key := range x.Removed {
		if keyer.IsGlob(key) {
			if f := of(key); f != nil {
				f.empty()
			}
		} else if f := of(keyer.GlobOf(key)); f != nil {
			f.removed(key)
		}
	}
	for i := range x.Failed {
		key := x.Failed[i].Key
		glob := key
		if !keyer.IsGlob(key) {
			glob = keyer.GlobOf(key)
		}
		if f := of(glob); f != nil {
			f.failed(x.Failed[i])
		}
	}
	for _, key := range x.Synced {
		if f := of(key); f != nil {
			f.sync()
		}
	}
	for _, key := range x.Late {
		if f := of(key); f != nil {
			f.giveUp()
		}
	}
}

// rejoin begins anew with the globs: removals of members were forgotten before they
// were taken (delivery.ErrBehind).
func (t *tap) rejoin() {
	t.globs.Leave()
	t.globs = delivery.Read(t.source.Store(), func() { t.resolver.ring(t) })
	for _, f := range t.folds {
		t.attached[f] = nil
		for g := range f.users {
			if g.servedBy(f) {
				t.attached[f] = append(t.attached[f], g)
			}
		}
	}
	t.resolver.visit(t)
}

// want is what is to be subscribed to of a type.
func (t *tap) want(typeURL string) *delivery.Change {
	ch := t.wanted[typeURL]
	if ch == nil {
		ch = &delivery.Change{TypeURL: typeURL}
		t.wanted[typeURL] = ch
	}
	return ch
}

// subscribe says what is wanted, and reports whether there was anything: then there may
// be something to take, for which the store does not wake.
func (t *tap) subscribe() bool {
	said := len(t.wanted)+len(t.attached) > 0
	for typeURL, ch := range t.wanted {
		t.names.Update(ch)
		delete(t.wanted, typeURL)
	}
	for f, globs := range t.attached {
		t.globs.Update(&delivery.Change{TypeURL: f.typeURL, Subscribe: []cache.Name{f.name()}, Versions: f.held(globs)})
		delete(t.attached, f)
	}
	return said
}

// releaseUnused ends the subscriptions that nothing uses any more, and the place itself if none
// is left.
func (t *tap) releaseUnused() {
	for _, l := range t.unused {
		if len(l.users) == 0 && t.leads[l.leadKey] == l {
			delete(t.leads, l.leadKey)
			t.names.Update(&delivery.Change{TypeURL: l.typeURL, Unsubscribe: []cache.Name{l.name()}})
		}
	}
	for _, f := range t.unfolded {
		if len(f.users) == 0 && t.folds[f.leadKey] == f {
			delete(t.folds, f.leadKey)
			delete(t.attached, f)
			t.globs.Update(&delivery.Change{TypeURL: f.typeURL, Unsubscribe: []cache.Name{f.name()}})
		}
	}
	t.unused, t.unfolded = nil, nil
	if len(t.leads)+len(t.folds) == 0 {
		t.close()
	}
}
