package cache

import (
	"errors"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache/digest"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// seat is a place that finds what it is told to find.
type seat struct{ fault error }

func (*seat) Bell() *Bell    { return nil }
func (s *seat) Check() error { return s.fault }

// Check finds what is wrong with the places of clients, with pins and with idle names.
func TestCheckUsers(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		k.says(ByName, "+n@1")
		k.store.Enter(&seat{}, true)
		k.store.Enter(&seat{}, false)
		k.store.Pin(cds, Name{Key: "pinned"}, Name{Key: glob})
		l := k.listener(NeedsStream)
		l.watch("idle")
		k.demand(ByName)
		l.unwatch("idle")
		return b
	}, []fault{
		{"readers", "1 readers counted as 2", func(b *broken) { b.star.store.readers++ }},
		{"place", "a bad place", func(b *broken) { b.star.store.Enter(&seat{errors.New("a bad place")}, false) }},
		{"answered", "is idle, and the server said that there is nothing", func(b *broken) { b.named.Find("idle").state = Absent }},
		{"vacant", "names that have nothing take", func(b *broken) { b.star.store.vacant.bytes++ }},
		{"pinned by nobody", `"pinned" is pinned by nobody`, func(b *broken) { delete(b.named.demands.pins, "pinned") }},
	})
}

// Check finds what is wrong with errors (ERR-1): each case breaks one thing.
func TestCheckErrors_ERR1(t *testing.T) {
	failing := func(name string, code codes.Code) wire.ResourceError {
		return wire.ResourceError{Name: name, Code: code}
	}
	member := "xdstp://x/envoy.config.cluster.v3.Cluster/g/2"
	log := func(b *broken) *errorLog { return b.named.Collection(glob).errors }
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		k.listener(NeedsStream).follow(glob)
		k.demand(ByName)
		k.says(ByName, "+"+name+"@1", "+n@1")
		k.apply(ByName, &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{
			failing(globless, codes.NotFound), failing(glob, codes.Unavailable), failing(name, codes.Unavailable), failing(member, codes.Internal),
		}})
		return b
	}, []fault{
		{"failed", "is failed without an error", func(b *broken) { b.named.Find(globless).extra.err = nil }},
		{"error of the absent", "is absent and has an error", func(b *broken) { b.named.Find(globless).state = Absent }},
		{"error that removes", "is present in spite of its error", func(b *broken) {
			b.named.Find(name).extra.err.Code = codes.NotFound
		}},
		{"not awaited", "its answer is not awaited", func(b *broken) { clear(b.named.upstream.unanswered) }},
		{"collections", "1 collections with errors counted as 2", func(b *broken) { b.named.excuses.collections++ }},
		{"error of a stranger", `the error of "n" is another collection's`, func(b *broken) { b.named.Collection(glob).addError("n", &wire.ResourceError{}) }},
		{"other error", `the error of "` + name + `" is another collection's`, func(b *broken) {
			log(b).byKey[name].err = &wire.ResourceError{Code: codes.Internal}
		}},
		{"no error of a member", `the error of "` + name + `" is another collection's`, func(b *broken) { b.named.Find(name).extra.err = nil }},
		{"key", `the error of "` + name + `" is not found`, func(b *broken) { log(b).byKey[name] = new(*log(b).byKey[name]) }},
		{"element", `the error of "` + name + `" is not found`, func(b *broken) { log(b).byKey[name].element = log(b).byKey[glob].element }},
		{"number", `the error of "` + name + `" is out of order`, func(b *broken) {
			log(b).byKey[name].number = log(b).byKey[glob].number
		}},
		{"newest", `the error of "` + member + `" is out of order`, func(b *broken) {
			log(b).byKey[member].number = b.star.store.journal.revision + 1
		}},
		{"count", "3 errors, 2 by key", func(b *broken) { delete(log(b).byKey, member) }},
		{"empty", "0 errors, 0 by key", func(b *broken) { b.coll.errors = &errorLog{} }},
		{"open", "stands without an error", func(b *broken) { b.named.Collection(glob).errors = log(b).without(glob) }},
	})
}

// Check finds what is wrong with answers that names stand for nothing, and with aliases.
func TestCheckNames_RES16_RES10(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		l := k.listener(NeedsStream)
		for _, name := range []string{"r", "alias", "left"} {
			l.watch(name)
		}
		k.demand(ByName)
		k.says(ByName, "+r@1|alias")
		k.says(ByName, "=virtual host|n,left")
		l.unwatch("left")
		return b
	}, []fault{
		{"answers", "2 answers counted as 1", func(b *broken) { b.named.absences.answered-- }},
		{"answered and open", `"n" is unknown, and the server said that it stands for nothing`, func(b *broken) { b.named.Find("n").state = Unknown }},
		{"answered and unwanted", `"left" is absent, and the server said`, func(b *broken) { b.named.Find("left").extra.demand = nil }},
		{"alias", `alias "alias" of "r" is broken`, func(b *broken) { b.named.Find("alias").marks.Alias = false }},
		{"alias of nothing", `alias "alias" of "r" is broken`, func(b *broken) { b.named.Find("alias").state = Absent }},
		{"alias that is gone", `alias "gone" of "r" is broken`, func(b *broken) {
			gone := newEntry("gone")
			gone.state, gone.marks.Alias = Present, true
			b.named.aliases.served["r"] = append(b.named.aliases.served["r"], gone)
		}},
	})
}

// Check finds what is wrong with sums, lists and retained content, which clients of the state of the world need.
func TestCheckStates_ACK4(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream|NeedsDigests)
		k.says(WholeType, "+a@1", "+b@1", "+gone@1")
		k.says(WholeType, "-gone")
		b.coll.List(false)
		b.coll.List(true)
		return b
	}, []fault{
		{"followers", "1 state-of-the-world followers counted as 2", func(b *broken) { b.coll.states++ }},
		{"users", "subscriptions counted as", func(b *broken) { b.star.digests.users++ }},
		{"without sums", "state-of-the-world subscriptions without sums", func(b *broken) { b.star.digests.kept = false }},
		{"sum of a member", "its content says", func(b *broken) { b.star.Find("a").extra.sum = digest.Of("x") }},
		{"sum", `"*": sum `, func(b *broken) { b.coll.sum = digest.Of("x") }},
		{"list", "or of other members", func(b *broken) {
			b.coll.encoded.lists.wrapped = nil
			b.coll.encoded.lists.bare = new(wire.Builder).Body()
		}},
		{"retained", "1 kept tombstones counted as 2", func(b *broken) { b.coll.retained.tombstones++ }},
		{"retained by a member", `"a" is there and keeps what it was`, func(b *broken) { b.star.Find("a").extra.own().retained = b.star.Find("b").res }},
	})
}

// Check finds what is wrong with what is held back (SUR-3, GATE-4): each case breaks one thing.
func TestCheckHeld_SUR3_GATE4(t *testing.T) {
	held := func(b *broken) *heldTables { return &b.star.store.due.held }
	loss := func(b *broken, key string) { b.star.upstream.held.names.Put(key, hold.Fate{Loss: true}) }
	rows := []fault{
		{"unlisted", "holds something, and is not listed", func(b *broken) { clear(held(b).tables) }},
		{"clock", "nothing will release it", func(b *broken) { held(b).clock = hold.Clock{} }},
		{"frozen", "is frozen: true, listed: false and false", func(b *broken) {
			b.named.upstream.held = &heldBack{freeze: hold.Freeze{Since: time.Now()}}
		}},
		{"frozen and listed", "is frozen: true, listed: true and true", func(b *broken) {
			b.star.upstream.held.freeze.Since = time.Now()
			held(b).frozen = with(held(b).frozen, b.star)
		}},
		{"loss of nothing", `"x" is held and does not exist`, func(b *broken) {
			b.star.upstream.held.names.Put("x", hold.Fate{Loss: true, Resource: words.Resource(cds, "x@1")})
		}},
		{"loss of the absent", `"n" is held and does not exist`, func(b *broken) {
			b.star.entries["n"] = newEntry("n")
			loss(b, "n")
		}},
	}
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		k.store.Session().SetGuard(hold.Guard{Share: 0.5, AtLeast: 1, Hold: time.Minute})
		k.says(WholeType, "+a@1", "+b@1")
		k.store.Session().Settle(time.Now().Add(time.Minute))
		k.says(WholeType, "-a", "-b")
		if b.star.upstream.held.names.Losses() != 2 {
			tb.Fatal("the losses are not held")
		}
		loss(b, "an alias only")
		return b
	}, rows)
}

// Check finds what is wrong with the references that a reader is told: each case breaks one thing.
func TestCheckReferences_LIST2(t *testing.T) {
	const directory = "xdstp://x/envoy.config.cluster.v3.ClusterCollection/d"
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k := newKeptOf(tb, Source{Quiet: time.Second, References: true})
		l := k.listener(NeedsStream)
		l.follow(Wildcard)
		l.watch("n")
		k.demand(WholeType)
		star := k.store.FindTable(cds, WholeType)
		refers := words.Resource(cds+"Collection", directory+"@1")
		k.apply(WholeType, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{refers, words.Resource(cds, "b@1")}})
		return &broken{star, k.store.FindTable(cds, ByName), star.Collection(Wildcard)}
	}, []fault{
		{"unlisted", `"` + directory + `" refers to others: true, listed false`, func(b *broken) { delete(b.star.references.listed, b.star.Find(directory)) }},
		{"attention", `"` + directory + `" has the attention 3, told 2`, func(b *broken) { b.star.Find(directory).reported = pinned }},
		{"gone", "1 entries refer to others that are gone", func(b *broken) { b.star.references.list(newEntry("gone")) }},
		{"nobody reads", "1 references that nobody reads", func(b *broken) { b.star.references.news.arrived = nil }},
	})
}

// A store is sound with a name that the server did not answer in time, one that requests have no room
// for, and one that nobody looks for on the present stream.
func TestCheckClocks_RES7_RES17(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k := newKeptOf(tb, Source{Quiet: time.Second, Absent: time.Minute, State: true})
		l := k.listener(NeedsStream)
		l.follow(Wildcard)
		l.watch("n")
		l.watch("late")
		l.watch("left out")
		k.demand(WholeType)
		k.demand(ByName)
		k.store.Session().Settle(time.Now().Add(2 * time.Minute))
		l.watch("asked")
		k.demand(ByName)
		k.store.Session().LeaveOut(stream(ByName), cds, []string{"left out"}, nil)
		star := k.store.FindTable(cds, WholeType)
		return &broken{star, k.store.FindTable(cds, ByName), star.Collection(Wildcard)}
	}, []fault{
		{"no clock", `"asked" is waited for without a clock`, func(b *broken) { b.named.Find("asked").extra.demand.asked = 0 }},
		{"late", `"late" is waited for without a clock`, func(b *broken) { b.named.Find("late").marks.Overdue = false }},
		{"left out", "requests have no room for 1 names, counted as 2", func(b *broken) { b.named.demands.leftOut++ }},
		{"nobody looks", "1 clocks, and somebody looks: false", func(b *broken) { delete(b.star.store.due.clocks, b.named) }},
		{"order", "the clocks are out of order", func(b *broken) {
			q := &b.named.demands.clocks
			q.queue = append(q.queue, clock{q.queue[0].demand, 0, time.Time{}})
		}},
	})
}

// A store is sound with members that were restored, and with those that a new stream has not confirmed.
func TestCheckRestored_SUR1_RES14(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		k.store.Snapshots().Restore(&Image{Tables: []TableImage{{
			TypeURL: cds, Kind: WholeType, Collections: []string{Wildcard},
			Resources: []ResourceImage{{Resource: words.Resource(cds, "a@1").AsRestored(), Received: time.Now()}},
		}}}, time.Now())
		k.says(WholeType, "+b@1")
		k.store.Session().Restart(stream(WholeType), 1)
		if b.coll.quiet.stale != 2 {
			tb.Fatal("no member is stale")
		}
		return b
	}, []fault{
		{"restored", "1 restored resources counted as 2", func(b *broken) { b.star.upstream.restored++ }},
		{"stale", "2 stale members counted as 1", func(b *broken) { b.coll.quiet.stale-- }},
	})
}
