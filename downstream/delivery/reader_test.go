package delivery

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
)

// reader is the relay's own place in the store of a schedule.
type reader struct {
	*bed

	c    *Place
	woke int
}

func (b *bed) read() *reader {
	r := &reader{bed: b}
	r.c = Read(b.store, func() { r.woke++ })
	return r
}

func (r *reader) sub(typeURL string, held []string, keys ...string) {
	r.Helper()
	ch := Change{TypeURL: typeURL}
	for _, key := range keys {
		ch.Subscribe = append(ch.Subscribe, cache.Name{Spelling: key, Key: key})
	}
	for _, key := range held {
		ch.Versions.Add(key, "")
	}
	r.c.Update(&ch)
	r.check()
}

// take takes everything: +key@version, -key, !key for an error, =glob for one that is
// synced and ?key for what is waited for no longer.
func (r *reader) take() []string {
	r.Helper()
	var said []string
	for {
		taken, more, err := Take([]*Place{r.c}, 1<<20, 8)
		if errors.Is(err, ErrBehind) {
			return append(said, "behind")
		}
		for _, t := range taken {
			said = append(said, renderTaken(t))
		}
		r.check()
		if !more {
			return said
		}
	}
}

func renderTaken(t *Taken) string {
	words := []string{short[t.TypeURL]}
	for _, f := range t.Found {
		words = append(words, "+"+f.Key+"@"+f.Resource.Version)
	}
	for _, key := range t.Removed {
		words = append(words, "-"+key)
	}
	for _, f := range t.Failed {
		words = append(words, fmt.Sprintf("!%s %s", f.Key, f.Error.Code))
	}
	for _, key := range t.Synced {
		words = append(words, "="+key)
	}
	for _, key := range t.Late {
		words = append(words, "?"+key)
	}
	return strings.Join(words, " ")
}

// A reader takes what a client would be sent, under keys, and is no stream.
func TestRead_SUB1_SUB11_RES10_ERR1(t *testing.T) {
	b := newBed(t, cache.Limits{})
	r := b.read()
	b.connect(0)
	r.sub(cds, nil, "a", "b", "c")
	b.expect(b.demand(0), "CDS +a +b +c")
	b.says(cds, "+a@1", "-b", "+x@7|c")
	b.fails(eds, "nobody", unavailable)
	if r.woke != 1 {
		t.Errorf("woken %d times", r.woke)
	}
	b.expect(r.take(), "CDS +a@1 +c@7 -b")
	b.says(cds, "+a@2")
	b.says(cds, "+a@3")
	if r.woke != 2 {
		t.Errorf("woken %d times", r.woke)
	}
	b.expect(r.take(), "CDS +a@3")
	b.fails(cds, "b", codes.NotFound)
	b.expect(r.take(), "CDS !b NotFound")
	if b.store.Clients() != 0 || b.seen.hits+b.seen.misses != 0 {
		t.Errorf("%d clients, %d lookups", b.store.Clients(), b.seen.hits+b.seen.misses)
	}
	r.c.Leave()
	b.check()
	if n := b.cache.Unwatched(); n != 2 { // what does not exist is not kept
		t.Errorf("%d unwatched", n)
	}
}

// A reader says which members it holds, whatever their versions: it is sent all there
// are, told when these were all, and then what it holds beyond them.
func TestRead_GLOB4_RES11(t *testing.T) {
	b := newBed(t, cache.Limits{})
	r := b.read()
	b.connect(0)
	r.sub(cds, []string{nameG1, nameG2}, globG)
	b.demand(0)
	b.says(cds, "+"+nameG1+"@1")
	b.expect(r.take(), "CDS +"+nameG1+"@1")
	b.settle()
	b.expect(r.take(), "CDS -"+nameG2, "CDS ="+globG)
	r.sub(cds, []string{nameG2}, globG) // all again
	b.expect(r.take(), "CDS +"+nameG1+"@1 -"+nameG2, "CDS ="+globG)
	b.says(cds, "-"+globG)
	b.expect(r.take(), "CDS -"+nameG1)
	r.sub(cds, nil, globG)
	b.expect(r.take(), "CDS -"+globG, "CDS ="+globG)
	r.c.Leave()
	b.check()
}

func TestRead_OverlookedRemovals(t *testing.T) {
	b := newBed(t, cache.Limits{})
	r := b.read()
	b.connect(0)
	r.sub(cds, nil, globG)
	b.demand(0)
	var come, gone []string
	for i := range 1024 + 1 {
		name := fmt.Sprintf("%s%d", strings.TrimSuffix(globG, "*"), i)
		come, gone = append(come, "+"+name+"@1"), append(gone, "-"+name)
	}
	b.says(cds, come...)
	r.take()
	b.says(cds, gone...)
	b.expect(r.take(), "behind")
	r.c.Leave()
	b.check()
}

// What nobody waits for any longer is told once, and to who comes later at once.
func TestRead_RES2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: quiet})
		r := b.read()
		b.connect(0)
		r.sub(cds, nil, "a", globG)
		b.demand(0)
		b.expect(r.take())
		<-time.After(2 * quiet)
		b.store.Session().Settle(time.Now())
		all := r.take()
		slices.Sort(all)
		b.expect(all, "CDS ?a", "CDS ?"+globG)
		b.expect(r.take())
		late := b.read()
		late.sub(cds, nil, "a", globG)
		b.expectAll(late.take(), "CDS ?a", "CDS ?"+globG)
	})
}

// What is not to be cached is taken again if it is subscribed to again.
func TestRead_TTL5(t *testing.T) {
	b := newBed(t, cache.Limits{})
	r := b.read()
	b.connect(0)
	r.sub(cds, nil, "a")
	b.demand(0)
	b.once(cds, "a@1")
	b.expect(r.take(), "CDS +a@1")
	r.sub(cds, nil, "a")
	b.expect(r.take(), "CDS +a@1")
	b.expect(b.demand(0))
}

// What is left of one reader goes before what others lack: the order is that of the types.
func TestTakeInOrder_ADS1(t *testing.T) {
	b := newBed(t, cache.Limits{})
	r, other := b.read(), b.read()
	b.connect(0)
	r.sub(cds, nil, "a", "b")
	other.sub(cds, nil, "a")
	b.demand(0)
	b.says(cds, "+a@1", "+b@1")
	readers := []*Place{r.c, other.c}
	for _, want := range []struct {
		said string
		more bool
	}{{"CDS +a@1", true}, {"CDS +b@1,CDS +a@1", false}, {"", false}} {
		taken, more, err := Take(readers, 1, 1)
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, t := range taken {
			said = append(said, renderTaken(t))
		}
		if got := strings.Join(said, ","); got != want.said || more != want.more {
			t.Errorf("they take %q, more: %t; want %q, %t", got, more, want.said, want.more)
		}
	}
}
