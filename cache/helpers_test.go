package cache

import (
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

const (
	cds  = "type.googleapis.com/envoy.config.cluster.v3.Cluster"
	glob = "xdstp://x/envoy.config.cluster.v3.Cluster/g/*"
	name = "xdstp://x/envoy.config.cluster.v3.Cluster/g/1"
)

// kept is a store between a control plane's hand and clients that only count what they are
// told.
type kept struct {
	testing.TB

	store *Store
}

func newKept(tb testing.TB) *kept {
	tb.Helper()
	return newKeptOf(tb, Source{Quiet: time.Second})
}

// newKeptOf is the same of a source, whose Clusters come in complete lists.
func newKeptOf(tb testing.TB, source Source) *kept {
	tb.Helper()
	source.FullState = map[string]bool{cds: true}
	return &kept{tb, New(Limits{}, nil).Open(source)}
}

func (k *kept) check() {
	k.Helper()
	if err := k.store.Check(); err != nil {
		k.Fatalf("Check: %v", err)
	}
}

// stream is the upstream stream of a kind of names.
func stream(kind Kind) wire.StreamID { return wire.StreamID{Second: kind == ByName} }

// says applies a response, in the words of package words.
func (k *kept) says(kind Kind, said ...string) {
	k.Helper()
	k.apply(kind, words.Response(cds, said...))
}

func (k *kept) apply(kind Kind, r *wire.Response) {
	k.Helper()
	k.applyAt(time.Now(), kind, r)
}

// applyAt applies a response that is received at a time.
func (k *kept) applyAt(received time.Time, kind Kind, r *wire.Response) {
	k.Helper()
	if err := k.store.Session().Apply(stream(kind), r, received); err != nil {
		k.Fatalf("Apply: %v", err)
	}
	k.check()
}

// asked is a store whose server was asked for names.
func asked(tb testing.TB, source Source, names ...string) *kept {
	tb.Helper()
	source.Quiet = time.Second
	k := newKeptOf(tb, source)
	l := k.listener(NeedsStream)
	for _, name := range names {
		l.watch(name)
	}
	k.demand(WholeType)
	return k
}

func (k *kept) named(key string) *Entry {
	k.Helper()
	e := k.store.FindTable(cds, ByName).Find(key)
	if e == nil {
		k.Fatalf("there is no %q", key)
	}
	return e
}

// is checks what an entry stands for, "" for nothing.
func (k *kept) is(key string, state State, version string) {
	k.Helper()
	e := k.named(key)
	got := ""
	if e.Exists() {
		got = e.Version()
	}
	if e.State() != state || got != version {
		k.Errorf("%q is %s in version %q, want %s in %q", key, e.State(), got, state, version)
	}
}

// freeze has an operator hold everything (GATE-4).
func (k *kept) freeze() {
	k.Helper()
	since := time.Now()
	k.store.Operator().Freeze(func(string, time.Time) hold.Freeze { return hold.Freeze{Since: since} }, nil)
	k.check()
}

// demand takes what the server is to be told, as lists of names.
func (k *kept) demand(kind Kind) (subscribed, unsubscribed []string) {
	k.Helper()
	subs, ok := k.store.Session().TakeDemand(stream(kind))
	if !ok {
		k.Fatal("the stream has to begin anew")
	}
	for _, sub := range subs {
		subscribed, unsubscribed = append(subscribed, sub.Subscribe...), append(unsubscribed, sub.Unsubscribe...)
	}
	k.check()
	return subscribed, unsubscribed
}

// listener is a client that counts what it is told.
type listener struct {
	store *Store
	bell  Bell
	typed TypeBell
	needs Needs

	cursor  Cursor
	changes int
}

func (k *kept) listener(needs Needs) *listener {
	l := &listener{store: k.store, needs: needs, bell: NewBell(func() {})}
	l.typed = NewTypeBell(&l.bell)
	return l
}

// follow follows "*" or a glob.
func (l *listener) follow(key string) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	kind := ByName
	if key == Wildcard {
		kind = WholeType
	}
	l.store.Table(cds, kind).Collection(key).Follow(&l.cursor, &l.typed, l, l.needs)
}

func (l *listener) Overdue()            {}
func (l *listener) AwaitsMembers() bool { return false }
func (l *listener) Hears(*Asked) bool   { return true }

// rung reports whether something rings for the client that has collected before.
func (l *listener) rung(something func()) bool {
	l.store.mu.Lock()
	l.bell.Arm()
	l.typed.Arm(false)
	l.cursor.Wait()
	l.store.mu.Unlock()
	something()
	return l.typed.Rung()
}

// crowd is the listeners of a name.
type crowd []*listener

func (l *listener) watch(key string) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	t := l.store.Table(cds, ByName)
	t.Watch(t.Entry(key), l.needs, func(others Audience) Audience {
		c, ok := others.(*crowd)
		if !ok {
			c = new(crowd)
		}
		*c = append(*c, l)
		return c
	})
}

func (l *listener) unwatch(key string) {
	l.store.mu.Lock()
	defer l.store.mu.Unlock()
	t := l.store.Table(cds, ByName)
	t.Unwatch(t.Find(key), l.needs, func(others Audience) Audience {
		c := others.(*crowd)
		*c = slices.DeleteFunc(*c, func(o *listener) bool { return o == l })
		if len(*c) == 0 {
			return nil
		}
		return c
	})
}

func (c *crowd) Notify(n Notice) {
	switch n.Event {
	case Recovered, Overdue, DigestChanged:
		return
	}
	for _, l := range *c {
		l.changes++
		l.store.Ring(&l.typed)
	}
}

func (c *crowd) Any(needs Needs) bool { return c.Count(needs) > 0 }
func (c *crowd) Hears(*Asked) bool    { return true }

func (c *crowd) Count(needs Needs) (n int) {
	for _, l := range *c {
		if l.needs.Has(needs) {
			n++
		}
	}
	return n
}
