package cache

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/testkit/words"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// lists applies a response of a version.
func (k *kept) lists(state bool, version, said string, received time.Time) {
	k.Helper()
	r := words.Response(cds, said)
	if r.State = state; state {
		r.Version = version
	}
	k.applyAt(received, WholeType, r)
}

// beats applies a response with a heartbeat for a, with a version and in a list of a version; "" for none.
func (k *kept) beats(state bool, list, version string, received time.Time) {
	k.Helper()
	r := words.Resource(cds, "=a@"+version+"~10s")
	if version == "" {
		r = words.Resource(cds, "=a~10s")
	}
	k.applyAt(received, WholeType, &wire.Response{TypeURL: cds, State: state, Version: list, Resources: []*wire.Resource{r}})
}

// A heartbeat is for content if it has its version. In the state of the world it may have none, or that of the last list: of
// content that came with this list, or has no version (TTL-3).
func TestHeartbeatVersions_TTL3(t *testing.T) {
	for _, tc := range []struct {
		state  bool
		has    string // version of the content
		list   string // that it came with
		beats  string // version of the heartbeat
		in     string // that it comes with
		renews bool
	}{
		{false, "1", "", "1", "", true},
		{false, "1", "", "2", "", false}, // it says that there is none (RES-16)
		{true, "1", "7", "1", "7", true},
		{true, "1", "7", "1", "8", true},
		{true, "1", "7", "", "7", true},
		{true, "1", "7", "7", "7", true},
		{true, "1", "7", "2", "7", false},
		{true, "1", "7", "", "8", false},
		{true, "1", "7", "7", "8", false},
		{true, "1", "", "", "", false},
		{true, "", "7", "2", "7", true},
		{true, "", "7", "2", "8", false},
	} {
		k, begin := newTimed(t, Source{State: tc.state})
		k.listener(NeedsStream | NeedsTTL).watch("a")
		k.demand(WholeType)
		k.lists(tc.state, tc.list, "+a@"+tc.has+":x~10s", begin)
		k.beats(tc.state, tc.in, tc.beats, begin.Add(time.Second))
		life := k.store.FindTable(cds, ByName).Find("a").extra.life
		if renews := life != nil && life.deadline.Equal(begin.Add(11*time.Second)); renews != tc.renews {
			t.Errorf("%+v: it is renewed: %t", tc, renews)
		}
	}
}

// A heartbeat for content that is held back renews what clients have instead, and the content stays held. One for what
// clients have says that the server has that after all (TTL-3, GATE-4).
func TestHeldHeartbeat_TTL3_GATE4(t *testing.T) {
	for _, tc := range []struct {
		state        bool
		held         string // that the server said last, in list 8; "" for a removal
		beats, in    string // versions of the heartbeat, and of what it comes with
		renews, stay bool
	}{
		{false, "2", "2", "", true, true},
		{false, "2", "3", "", false, true},
		{false, "2", "1", "", true, false},
		{false, "", "1", "", true, false},
		{false, "", "2", "", false, true},
		{true, "2", "2", "9", true, true},
		{true, "2", "", "8", true, true},
		{true, "2", "8", "8", true, true},
		{true, "2", "3", "8", false, true},
		{true, "2", "8", "9", false, true},
	} {
		k, begin := newTimed(t, Source{State: tc.state})
		k.listener(NeedsStream | NeedsTTL).watch("a")
		k.demand(WholeType)
		k.lists(tc.state, "7", "+a@1:x~10s", begin)
		k.freeze()
		if tc.held == "" {
			k.lists(false, "", "-a", begin)
		} else {
			k.lists(tc.state, "8", "+a@"+tc.held+":y~10s", begin)
		}
		k.beats(tc.state, tc.in, tc.beats, begin.Add(time.Second))
		table := k.store.FindTable(cds, ByName)
		renews := table.Find("a").extra.life.deadline.Equal(begin.Add(11 * time.Second))
		if stay := table.upstream.held.any(); renews != tc.renews || stay != tc.stay {
			t.Errorf("%+v: it is renewed: %t, and the content held: %t", tc, renews, stay)
		}
	}
}

// Members are not sent encoded together from when one of them has a ttl: each is sent the ttl that remains for it (TTL-1).
func TestChunksWithoutTTL_TTL1(t *testing.T) {
	k := newKept(t)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	k.says(WholeType, "+a@1", "+b@1")
	table := k.store.FindTable(cds, WholeType)
	c := table.Collection(Wildcard)
	if _, ok := c.Chunk(c.First(), c.First().changed, 1<<20, 1); !ok || len(c.encoded.chunks.by) != 1 {
		t.Fatalf("%d chunks are kept", len(c.encoded.chunks.by))
	}
	if k.says(WholeType, "=a@1~10s"); len(c.encoded.chunks.by) != 0 {
		t.Errorf("%d chunks are kept", len(c.encoded.chunks.by))
	}
}
