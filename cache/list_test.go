package cache

import (
	"fmt"
	"testing"
)

// members is a store with so many members of "*".
func members(tb testing.TB, n int) (*kept, *Collection) {
	tb.Helper()
	k := newKept(tb)
	k.listener(NeedsStream).follow(Wildcard)
	k.demand(WholeType)
	for i := range n {
		k.says(WholeType, fmt.Sprintf("+a%d@1", i))
	}
	return k, k.store.FindTable(cds, WholeType).Collection(Wildcard)
}

// Chunks are kept of so many members, while each of them has one name (OPS-1, RES-10).
func TestChunked_OPS1_RES10(t *testing.T) {
	k, c := members(t, 3)
	for most, want := range map[int]bool{2: true, 3: true, 4: false} {
		if k.store.cache.MinChunk = most; c.Chunked() != want {
			t.Errorf("3 members where chunks are kept of %d: %t", most, !want)
		}
	}
	k.store.cache.MinChunk = 3
	if c.table.aliases.set("a0", nil); c.Chunked() {
		t.Error("members have several names, and chunks are kept")
	}
}

// A chunk has as many members as there is room for. It is made once for all clients with that room (OPS-1).
func TestChunk_OPS1(t *testing.T) {
	_, c := members(t, 3)
	first, second := c.log.live.head, c.log.live.head.next
	size := func(n int) (all int) {
		for e := first; n > 0; e, n = e.next, n-1 {
			all += e.res.Size()
		}
		return all
	}
	for _, tc := range []struct {
		name          string
		upTo          uint64
		size, members int
		want          int
	}{
		{"room for all", c.log.live.tail.changed, 1 << 20, 10, 3},
		{"changes up to the second one", second.changed, 1 << 20, 10, 2},
		{"bytes of two", c.log.live.tail.changed, size(2), 10, 2},
		{"a byte less", c.log.live.tail.changed, size(2) - 1, 10, 1},
		{"two members", c.log.live.tail.changed, 1 << 20, 2, 2},
		{"one member", c.log.live.tail.changed, 1 << 20, 1, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.encoded.chunks.drop()
			k, ok := c.Chunk(first, tc.upTo, tc.size, tc.members)
			if !ok || k.Body.Resources() != tc.want {
				t.Fatalf("it has %d members, want %d", k.Body.Resources(), tc.want)
			}
			again, _ := c.Chunk(first, k.Last.changed, k.Body.Size(), k.Body.Resources())
			if again.Body != k.Body {
				t.Error("for a client with just that room it is made anew")
			}
		})
	}
	if _, ok := c.Chunk(first, first.changed, first.res.Size()-1, 10); ok {
		t.Error("there is a chunk that has room for nothing")
	}
}

// The sum of the versions is worked out in goes, over all collections of a client. What was added up is not looked at
// again (OPS-1).
func TestVersionSum_OPS1(t *testing.T) {
	_, c := members(t, 3)
	for _, looked := range []int{0, MaxLooked - 3} {
		c.encoded.lists.summedAt = 0
		was := looked
		if sum, complete := c.VersionSum(&looked); !complete || sum == 0 || looked != was+3 {
			t.Errorf("behind %d it is complete: %t, behind %d", was, complete, looked)
		}
	}
	c.encoded.lists.summedAt = 0
	looked := MaxLooked - 2
	if _, complete := c.VersionSum(&looked); complete {
		t.Error("one more is looked at")
	}
	looked = 0
	if _, complete := c.VersionSum(&looked); !complete || looked != 1 {
		t.Errorf("the next go is complete: %t, and looks at %d", complete, looked)
	}
}
