package simulate

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

// kind is what an operation does.
type kind string

// The kinds. Those that last are undone by themselves when their time is over.
const (
	opSet        kind = "set"         // a resource changes, or comes
	opUnset      kind = "unset"       // a resource goes
	opMake       kind = "make"        // a cluster comes, and its endpoints
	opMove       kind = "move"        // a route is led to another cluster
	opBreak      kind = "break"       // a cluster that no route leads to goes
	opCrashPlane kind = "crash-plane" // and comes back: as it was, with an older state, or empty
	opMute       kind = "mute"        // a control plane takes requests and answers nothing
	opSlow       kind = "slow-plane"  // it waits before it sends
	opStreams    kind = "end-streams" // it ends its streams
	opCut        kind = "cut-answer"  // it breaks an answer off, after some parts of it
	opLag        kind = "lag"         // it does not hear of changes
	opSever      kind = "sever"       // nothing gets from one host to another
	opPart       kind = "part"        // nor back
	opDrag       kind = "drag"        // what goes from one host to another takes long
	opReset      kind = "reset"       // connections between two hosts are reset
	opCrash      kind = "crash-relay" // without a word, and torn writes; its disk comes back as it was, older, or empty
	opRestart    kind = "restart"     // a relay drains, and starts again
	opReload     kind = "reload"      // another configuration
	opFull       kind = "disk-full"
	opPause      kind = "pause" // a client does not read
	opHold       kind = "hold"  // a client does not acknowledge
	opSub        kind = "subscribe"
	opUnsub      kind = "unsubscribe"
	opClient     kind = "restart-client" // it forgets everything
	opLeap       kind = "leap"           // time passes
)

// op is one operation: what, when, and for how long. The numbers choose among what there
// is; they mean the same whatever other operations are left out.
type op struct {
	id      int
	at, dur time.Duration
	kind    kind
	a, b, c int
}

func (o op) String() string {
	return fmt.Sprintf("%2d %8.3fs %-14s %d %d %d for %.3fs", o.id, o.at.Seconds(), o.kind, o.a, o.b, o.c, o.dur.Seconds())
}

// weights say how often a kind comes.
var weights = []struct {
	kind   kind
	weight int
	most   time.Duration // how long it lasts
}{
	{opSet, 26, 0},
	{opUnset, 8, 0},
	{opMake, 0, 0}, // these three come together
	{opMove, 8, 0},
	{opBreak, 0, 0},
	{opCrashPlane, 5, 20 * time.Second},
	{opMute, 3, 40 * time.Second},
	{opSlow, 2, 20 * time.Second},
	{opStreams, 3, 0},
	{opLag, 2, 20 * time.Second},
	{opSever, 4, 40 * time.Second},
	{opPart, 4, 40 * time.Second},
	{opDrag, 4, 30 * time.Second},
	{opReset, 5, 0},
	{opCrash, 5, 10 * time.Second},
	{opRestart, 2, 3 * time.Second},
	{opReload, 4, 0},
	{opFull, 2, 40 * time.Second},
	{opPause, 4, 30 * time.Second},
	{opHold, 4, 30 * time.Second},
	{opSub, 7, 0},
	{opUnsub, 5, 0},
	{opClient, 3, 0},
	{opLeap, 1, 0},
}

// operations are how many a seed has, about: a move is three, and answers that are broken off
// are not counted.
const operations = 50

// Beside the others a seed has up to mostCuts answers that are broken off. Each is over after
// cutTime.
const (
	mostCuts = 2
	cutTime  = 12 * time.Second
)

// planOf are the operations of a seed.
func planOf(seed uint64) []op {
	r := rand.New(rand.NewPCG(seed, 1))
	total := 0
	for _, w := range weights {
		total += w.weight
	}
	var all []op
	at := 3 * time.Second // most clients have come
	for len(all) < operations {
		at += time.Duration(r.ExpFloat64() * float64(2*time.Second))
		at = at.Round(time.Millisecond)
		n, i := r.IntN(total), 0
		for ; n >= weights[i].weight; i++ {
			n -= weights[i].weight
		}
		o := op{id: len(all), at: at, kind: weights[i].kind, a: r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16)}
		if most := weights[i].most; most > 0 {
			o.dur = time.Duration(r.Int64N(int64(most))).Round(time.Millisecond)
		}
		if o.kind != opMove {
			all = append(all, o)
			continue
		}
		// Make before break: the control planes do it so for clients of their own.
		for j, kind := range []kind{opMake, opMove, opBreak} {
			o.id, o.kind, o.at = len(all), kind, at+time.Duration(j)*time.Second
			all = append(all, o)
		}
		at += 2 * time.Second
	}
	all = append(all, cutsOf(seed, len(all), at)...)
	all = append(all, operatedOf(seed, len(all), at)...)
	all = append(all, recountsOf(seed, len(all), at)...)
	all = append(all, behindOf(seed, len(all), at)...)
	all = append(all, lossesOf(seed, len(all), at)...)
	all = append(all, coldOf(seed, len(all), at)...)
	return slices.SortedStableFunc(slices.Values(all), func(a, b op) int { return cmp.Compare(a.at, b.at) })
}

// cutsOf are the answers that are broken off. What else a seed does is the same without them.
func cutsOf(seed uint64, id int, before time.Duration) []op {
	r := rand.New(rand.NewPCG(seed, 2))
	var all []op
	for range r.IntN(mostCuts + 1) {
		at := time.Duration(r.Int64N(int64(before))).Round(time.Millisecond)
		all = append(all, op{id: id + len(all), at: at, dur: cutTime, kind: opCut, a: r.IntN(1 << 16), b: r.IntN(1 << 16), c: r.IntN(1 << 16)})
	}
	return all
}

// choices are what a seed decides of the parties.
type choices struct {
	first, second string // the api_type of the first and the second tier
	scoped        bool   // clients are in two scopes
	silent        bool   // control planes say nothing of names that do not exist
	disk          bool   // relays have cache.dir
	delicate      bool   // some contents are not to be kept, or not on a disk
	guard         bool   // the guard holds the loss of most of what there is, however little that is
	peers         bool   // the first tier has two relays, which are peers
	counters      bool   // control planes count versions
	behaviour     plane.Behaviour
}

func choicesOf(seed uint64) choices {
	pick := func(what string, n int) int { return int(chance(seed, what) % uint64(n)) }
	forms := []string{
		"AGGREGATED_DELTA_GRPC", "AGGREGATED_DELTA_GRPC", "AGGREGATED_DELTA_GRPC", "AGGREGATED_GRPC", "AGGREGATED_GRPC",
		"DELTA_GRPC", "GRPC", "REST",
	}
	c := choices{
		first: forms[pick("first", len(forms))], second: forms[pick("second", len(forms))],
		scoped: pick("scoped", 3) == 0, silent: pick("silent", 4) == 0, disk: pick("disk", 4) > 0, delicate: pick("delicate", 3) == 0,
	}
	c.guard, c.peers = pick("guard", 2) == 0, pick("peers", 4) == 0
	c.delicate = c.delicate && c.first != "REST" && c.second != "REST"
	c.behaviour = plane.Behaviour{
		DigestVersions: true, AwaitACK: pick("await", 2) == 0, RepeatEndpoints: pick("repeat", 2) == 0,
		Absent: plane.AbsentRemoved, PerResponse: []int{0, 0, 1, 3}[pick("parts", 4)], HeedVersion: pick("heed", 2) == 0,
	}
	countersOf(seed, &c)
	if c.silent {
		c.behaviour.Absent, c.behaviour.IgnoreRepeats = plane.AbsentSilent, true
	}
	return c
}

// state reports whether an api_type is a state-of-the-world one.
func stateOfTheWorld(apiType string) bool { return !strings.Contains(apiType, "DELTA") }

// form is how a client speaks.
type form struct {
	state, perType, rest bool
}

func (f form) String() string {
	switch {
	case f.rest:
		return "REST"
	case f.state && f.perType:
		return "state per type"
	case f.state:
		return "state ADS"
	case f.perType:
		return "incremental per type"
	default:
		return "incremental ADS"
	}
}

// clients are how many there are.
const clients = 20

// member is what a client is.
type member struct {
	form    form
	tier    int // 0 or 1: which relay it is at
	resumes bool
	cluster string
	subs    map[string][]string // by type
}

// memberOf is what the seed makes of a client.
func memberOf(seed uint64, i int) member {
	forms := []form{{}, {state: true}, {}, {state: true, perType: true}, {perType: true}, {}, {state: true}, {rest: true}, {}, {state: true}}
	r := rand.New(rand.NewPCG(seed, 100+uint64(i)))
	m := member{
		form: forms[i%len(forms)], tier: i * 2 / clients, resumes: r.IntN(4) > 0, cluster: []string{"red", "blue"}[r.IntN(2)],
		subs: make(map[string][]string),
	}
	some := func(typeURL string, n int) {
		all := universe(typeURL)
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		m.subs[typeURL] = append(m.subs[typeURL], all[:n]...)
	}
	for _, typeURL := range []string{plane.Cluster, plane.Listener} {
		if r.IntN(3) > 0 {
			m.subs[typeURL] = []string{"*"}
		} else {
			some(typeURL, 3)
		}
		if r.IntN(3) == 0 {
			m.subs[typeURL] = append(m.subs[typeURL], globs(typeURL)...)
		}
	}
	if r.IntN(2) == 0 {
		m.subs[plane.Endpoints] = globs(plane.Endpoints)
	}
	some(plane.Endpoints, 3+r.IntN(3))
	some(plane.Route, 1+r.IntN(4))
	if r.IntN(2) == 0 {
		some(plane.Secret, 1)
	}
	return m
}
