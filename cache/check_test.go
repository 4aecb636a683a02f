package cache

import (
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// globless is a name in a glob that nobody subscribes to.
const globless = "xdstp://x/envoy.config.cluster.v3.Cluster/q/m?a=1&b=2"

// broken is a store of which a test breaks one thing: its table of "*", that of names, and
// the collection "*".
type broken struct {
	star, named *Table
	coll        *Collection
}

// fault is something that a test breaks, and what Check says then.
type fault struct {
	name, want string
	breakIt    func(*broken)
}

// findEach breaks one thing of a sound store after the other. sound is called for each.
func findEach(t *testing.T, sound func(tb testing.TB) *broken, faults []fault) {
	t.Helper()
	for _, f := range faults {
		t.Run(f.name, func(t *testing.T) {
			b := sound(t)
			s := b.star.store
			if err := s.Check(); err != nil {
				t.Fatalf("of a sound store: %v", err)
			}
			f.breakIt(b)
			if err := s.Check(); err == nil || !strings.Contains(err.Error(), f.want) {
				t.Fatalf("found %v, want %q", err, f.want)
			}
		})
	}
}

// chunk breaks the chunk that begins with a.
func (b *broken) chunk(breakIt func(*Chunk)) {
	chunks := b.coll.encoded.chunks.by
	k := chunks[b.star.Find("a")]
	breakIt(&k)
	chunks[b.star.Find("a")] = k
}

func newBroken(tb testing.TB, needs Needs) (*kept, *broken) {
	tb.Helper()
	k := newKept(tb)
	l := k.listener(needs)
	l.follow(Wildcard)
	l.watch("n")
	l.watch(globless)
	k.store.Session().Restart(stream(WholeType), 0)
	k.store.Session().Restart(stream(ByName), 0)
	star := k.store.FindTable(cds, WholeType)
	return k, &broken{star, k.store.FindTable(cds, ByName), star.Collection(Wildcard)}
}

// Check finds what is wrong: each case breaks one thing.
func TestCheck(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream)
		k.says(WholeType, "+a@1", "+b@1")
		k.says(ByName, "+n@1", "+"+globless+"@1")
		b.named.demands.pins, b.named.aliases.served = map[string]int{}, map[string][]*Entry{}
		if _, ok := b.coll.Chunk(b.star.Find("a"), b.star.Find("a").changed, 1<<20, 1); !ok {
			tb.Fatal("there is no chunk")
		}
		b.coll.followers[0].bell.Arm(false)
		b.coll.followers[0].Wait()
		return b
	}, []fault{
		{"resources", "counted 5 resources", func(b *broken) { b.star.store.usage.resources++ }},
		{"bytes of a table", "counted 2 resources", func(b *broken) { b.star.usage.bytes++ }},
		{"watchers", "3 watchers", func(b *broken) { b.named.usage.watchers++ }},
		{"demands", "demands", func(b *broken) { b.named.demands.count++ }},
		{"stream", "on no stream", func(b *broken) { b.star.upstream.assigned = false }},
		{"order", "out of order", func(b *broken) { b.star.Find("a").changed = 0 }},
		{"future", "in the future", func(b *broken) { b.named.Find("n").changed = 99 }},
		{"list", "list of", func(b *broken) { b.coll.log.live.len++ }},
		{"state", `"n" is absent, resource held: true`, func(b *broken) { b.named.Find("n").state = Absent }},
		{"error", "in spite of its error", func(b *broken) { b.named.Find("n").extra.err = &wire.ResourceError{Code: codes.NotFound} }},
		{"failed", "without an error", func(b *broken) { b.named.Find("n").state = Failed }},
		{"excused and gone", "is excused and gone", func(b *broken) {
			gone := newEntry("gone")
			gone.state = Present
			gone.extra.setErr(&wire.ResourceError{Code: codes.Unavailable})
			b.star.excuses.add(gone)
		}},
		{"excused", "excused for nothing", func(b *broken) { b.star.excuses.add(b.star.Find("a")) }},
		{"failing", "with errors counted as 1", func(b *broken) { b.star.excuses.collections++ }},
		{"failure", "is out of order", func(b *broken) {
			b.coll.addError("x", &wire.ResourceError{})
			b.coll.errors.byKey["x"].number = 1 << 40
		}},
		{"nobody asked", "is not asked", func(b *broken) { b.named.Find("n").extra.demand = nil }},
		{"empty audience", "an empty audience", func(b *broken) { b.named.Find("n").extra.audience = new(crowd) }},
		{"follower", "broken follower", func(b *broken) { b.coll.followers[0].pos = 7 }},
		{"waiter", "waits in another place", func(b *broken) { b.coll.followers[0].waiting = 7 }},
		{"deaf", "does not ring", func(b *broken) { b.coll.followers[0].leaveWaiters() }},
		{"stale", "stale members", func(b *broken) { b.coll.quiet.stale++ }},
		{"collection", "stands under", func(b *broken) { b.coll.key = "x" }},
		{"copy of a key", "has a key of its own", func(b *broken) { b.named.Find("n").key = strings.Clone("n") }},
		{"shared key", `"n": key shared true`, func(b *broken) { b.named.Find("n").marks.sharesKey = true }},
		{"shared key of a name", "the key lies in what is not kept, or may go", func(b *broken) { b.named.Find("n").marks.sharesKey = true }},
		{"spelling", "keeps its key twice", func(b *broken) { b.named.Find("n").extra.spelled = "n" }},
		{"entry", "stands under", func(b *broken) { b.star.Find("a").key = "x" }},
		{"pending", "pending", func(b *broken) { b.named.Find("n").extra.demand.pending = 1 }},
		{"place among pending", "is pending at 1, but says 2", func(b *broken) {
			i := b.named.Find("n").extra.demand
			b.named.demands.add(i)
			i.pending = 2
		}},
		{"evicting", "is evicted", func(b *broken) { b.named.Find("n").extra.demand.evicting = true }},
		{"idle", "is idle", func(b *broken) { b.named.Find("n").extra.demand.idle = true }},
		{"evicting untold", "is evicted, but the server is not told", func(b *broken) { b.named.Find("n").extra.demand.evicting = true }},
		{"loose", "unglobbed true, listed false, collection false", func(b *broken) { b.named.Find("n").marks.unglobbed = true }},
		{"loose member", "unglobbed true, listed true, collection true", func(b *broken) { b.named.Find(globless).coll = b.coll }},
		{"list of tombstones", "is in the wrong list", func(b *broken) { b.star.Find("a").marks.Tombstone = true }},
		{"no pin", "has 0 pins", func(b *broken) {
			b.named.demands.pins["n"] = 0
			b.named.Find("n").marks.pinned = true
		}},
		{"unknown pin", "and does not know", func(b *broken) { b.named.demands.pins["n"] = 1 }},
		{"pinned name", "is pinned by nobody", func(b *broken) { b.named.Find("n").marks.pinned = true }},
		{"pinned collection", "is pinned by nobody", func(b *broken) { b.coll.pinned = true }},
		{"aliases of none", "serves no aliases", func(b *broken) { b.named.aliases.served["x"] = nil }},
		{"chunk of a tombstone", "a chunk from", func(b *broken) { b.star.Find("a").marks.Tombstone = true }},
		{"chunk of other members", "a chunk from", func(b *broken) { b.chunk(func(k *Chunk) { k.Last = b.star.Find("b") }) }},
		{"chunk of other content", "a chunk from", func(b *broken) {
			b.chunk(func(k *Chunk) { k.Body = wire.Gather([]*wire.Resource{b.star.Find("b").res}) })
		}},
		{"chunk of nobody", "chunks that nobody needs", func(b *broken) { b.coll.followers = nil }},
		{"sum of versions", "the sum of the versions", func(b *broken) {
			looked := 0
			b.coll.VersionSum(&looked)
			b.coll.encoded.lists.versions++
		}},
		{"stray", "may be a stray, and nobody looks", func(b *broken) {
			b.named.Find("n").marks.stray, b.named.Find("n").extra.demand.idle = true, true
		}},
		{"list of nobody", "a list that nobody needs", func(b *broken) { b.coll.List(false) }},
	})
}

// Check finds what is wrong with lifetimes: each case breaks one thing.
func TestCheckTTL(t *testing.T) {
	findEach(t, func(tb testing.TB) *broken {
		tb.Helper()
		k, b := newBroken(tb, NeedsStream|NeedsTTL)
		k.says(WholeType, "+a@1~10s", "+b@1~20s", "+c@1~30s")
		k.says(WholeType, "=a@1~10s", "=b@1~15s")
		once := &wire.Response{TypeURL: cds, Resources: []*wire.Resource{words.Resource(cds, "once@1!")}}
		k.apply(WholeType, once)
		k.says(ByName, "+n@1~10s")
		k.says(WholeType, "+gone@1~1s")
		k.store.Session().Settle(time.Now().Add(2 * time.Second))
		b.coll.followers[0].bell.Arm(false)
		b.coll.followers[0].Wait()
		return b
	}, []fault{
		{"place", `"a" stands at 1 of the heap, but says 7`, func(b *broken) { b.star.Find("a").extra.life.place = 7 }},
		{"order", "before what is above it", func(b *broken) { b.star.lifetimes.deadlines[1].deadline = time.Time{} }},
		{"order of many", `"c" runs out before`, func(b *broken) { b.star.lifetimes.deadlines[2].deadline = time.Time{} }},
		{"forgotten", "are in the heap", func(b *broken) { b.star.lifetimes.deadlines = b.star.lifetimes.deadlines[:1] }},
		{"ttl", "in the heap", func(b *broken) { b.star.Find("a").extra.life.ttl = 0 }},
		{"lifetime of another", "lifetime of another", func(b *broken) { b.star.Find("a").extra.life.entry = b.star.Find("b") }},
		{"heartbeats", "heartbeats end too early", func(b *broken) { b.coll.heartbeats.tail = nil }},
		{"heartbeat listed", "heartbeats broken before", func(b *broken) { b.coll.heartbeats.tail.listed = false }},
		{"heartbeat before", "heartbeats broken before", func(b *broken) { b.coll.heartbeats.tail.prev = nil }},
		{"heartbeat twice", "out of place", func(b *broken) { b.coll.heartbeats.tail.heartbeat = b.coll.heartbeats.head.heartbeat }},
		{"heartbeat of another collection", `the heartbeat of "a" is out of place`, func(b *broken) { b.star.Find("a").coll = nil }},
		{"heartbeat of another lifetime", `the heartbeat of "a" is out of place`, func(b *broken) {
			b.star.Find("a").extra.life = new(*b.star.Find("a").extra.life)
		}},
		{"waiters", "1 followers wait, 2 are listed", func(b *broken) { b.coll.waiters.plain = append(b.coll.waiters.plain, &Cursor{}) }},
		{"expired", "has a lifetime, but is absent", func(b *broken) { b.star.Find("gone").extra.life.expired = false }},
		{"order of heartbeats", "out of place", func(b *broken) { b.coll.heartbeats.tail.heartbeat = 0 }},
		{"future", "in the future", func(b *broken) { b.star.Find("a").extra.life.heartbeat = 99 }},
		{"listed", "is no member", func(b *broken) { b.named.Find("n").extra.life.listed = true }},
	})
}
