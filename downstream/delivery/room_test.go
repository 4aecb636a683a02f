package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// roomFor returns with how many bytes left a response still takes what say has to tell, how many bytes it
// then has more, and whether the writer knows that there was no room for less.
func (p *peer) roomFor(typeURL string, k cache.Kind, say func(*writer) bool) (need, grown int, full bool) {
	p.Helper()
	for {
		wr := &writer{size: 1 << 20, left: 1}
		if !wr.turn(p.c.find(typeURL), k) || !wr.remove("first") {
			p.Fatal("nothing is subscribed to")
		}
		first := wr.cur.Body.Size()
		wr.size = first + need
		if said := say(wr); said {
			return need, wr.out[0].Body.Size() - first, full
		} else if full = wr.full; !full {
			p.Fatal("it is not told, and there was room")
		}
		need++
	}
}

// What fits into a response to the byte goes into it, and no response is larger than its size: the writer counts
// before it writes.
func TestRES9RoomIsExact(t *testing.T) {
	long := strings.Repeat("n", 40)
	failed := &wire.ResourceError{Code: notFound, Message: "why it is not there"}
	content := func(b *bed, p *peer, name string) (n *nameSub, e *cache.Entry, r *wire.Resource) {
		b.Helper()
		n = p.c.find(vhds).subs.names.get(name)
		return n, n.entry, n.entry.Resource()
	}
	for _, tc := range []struct {
		name string
		form Form
		subs string
		says string
		need func(b *bed, p *peer) (say func(*writer) bool, want int)
	}{
		{"content", Form{}, long, "+" + long + "@1", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, r := content(b, p, long)
			return func(wr *writer) bool { return wr.add(e, r, long, false) }, r.Size() + len(long) + 8
		}},
		{"TTL-1 content with its ttl", timed, long, "+" + long + "@1~1h", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, r := content(b, p, long)
			return func(wr *writer) bool { return wr.add(e, r, long, false) }, r.Size() + len(long) + 8 + 24
		}},
		{"content without its ttl", Form{}, long, "+" + long + "@1~1h", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, r := content(b, p, long)
			return func(wr *writer) bool { return wr.add(e, r, long, false) }, r.Size() + len(long) + 8
		}},
		{"NAME-4 a bare payload has the name of the server", Form{State: true}, long, "+" + long + "@1", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, r := content(b, p, long)
			return func(wr *writer) bool { return wr.add(e, r, "short", false) }, r.Size() + len(long) + 8
		}},
		{"RES-13 a wrapped one that of the client", Form{State: true, Wrapped: true}, long, "+" + long + "@1", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, r := content(b, p, long)
			return func(wr *writer) bool { return wr.add(e, r, "short", false) }, r.Size() + len("short") + 8 + 72
		}},
		{"RES-3 a removal", Form{}, long, "", func(*bed, *peer) (func(*writer) bool, int) {
			return func(wr *writer) bool { return wr.remove(long) }, len(long) + 8
		}},
		{"ERR-1 an error", Form{}, long, "", func(*bed, *peer) (func(*writer) bool, int) {
			return func(wr *writer) bool { return wr.tellError(failed, long) }, len(long) + len(failed.Message) + 24
		}},
		{"ERR-1 an error that takes the resource away", Form{}, long, "!" + long, func(b *bed, p *peer) (func(*writer) bool, int) {
			n, e, _ := content(b, p, long)
			return func(wr *writer) bool { return wr.failed(e, n) }, 2*len(long) + len("why") + 24 + 8
		}},
		{"TTL-3 a heartbeat", timed, long, "+" + long + "@version~1h", func(b *bed, p *peer) (func(*writer) bool, int) {
			_, e, _ := content(b, p, long)
			return func(wr *writer) bool { return wr.heartbeat(e, long, false) }, len(long) + len("version") + 2*8 + 24
		}},
		{"RES-16 the answer that there is nothing", Form{}, long, "=none|" + long, func(b *bed, p *peer) (func(*writer) bool, int) {
			n, e, _ := content(b, p, long)
			return func(wr *writer) bool { return wr.absent(n) }, e.Absence().Answer().Size() + 8
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: time.Hour, Shared: map[string]bool{vhds: true}})
				p := b.joinAs(tc.form)
				p.sub(vhds, tc.subs)
				b.connect(0)
				switch {
				case strings.HasPrefix(tc.says, "!"):
					b.fails(vhds, tc.says[1:], notFound)
				case tc.says != "":
					b.says(vhds, tc.says)
				}
				say, want := tc.need(b, p)
				need, grown, full := p.roomFor(vhds, cache.ByName, say)
				if need != want || !full {
					t.Errorf("it takes %d bytes, want %d; less was too little: %t", need, want, full)
				}
				if grown > need {
					t.Errorf("RES-9: %d bytes were counted for %d", need, grown)
				}
			})
		})
	}
}
