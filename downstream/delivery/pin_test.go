package delivery

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

func (b *bed) pin(typeURL string, spellings ...string) {
	b.Helper()
	b.store.Pin(typeURL, names(spellings)...)
	b.check()
}

func (b *bed) unpin(typeURL string, spellings ...string) {
	b.Helper()
	b.store.Unpin(typeURL, names(spellings)...)
	b.check()
}

func (b *bed) unlist(typeURL string, spellings ...string) {
	b.Helper()
	b.store.Unlist(typeURL, names(spellings)...)
	b.check()
}

func TestPin_LIST2(t *testing.T) {
	t.Run("LIST-2 what is pinned is asked for once, and answers the client that comes later", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		b.pin(cds, nameG1, nameG2)
		b.pin(cds, nameG1)
		b.expect(b.demand(0), "CDS +"+nameG1+" +"+nameG2)
		b.says(cds, "+"+nameG1+"@1", "-"+nameG2)
		if i := b.infoOf(cds, nameG1); i.Pins != 2 || i.Watchers != 0 || i.State != "present" {
			t.Errorf("%+v", i)
		}
		p := b.join()
		p.sub(cds, nameG1, nameG2)
		b.expect(b.demand(0))
		b.expectAll(p.collect(), "CDS +"+nameG1+"@1 -"+nameG2)
		if b.seen.hits != 2 || b.seen.misses != 0 {
			t.Errorf("%d hits, %d misses", b.seen.hits, b.seen.misses)
		}
	})
	t.Run("LIST-2 a pinned glob is asked for, and members of it are by nobody else", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		b.pin(cds, globG)
		b.expect(b.demand(0), "CDS +"+globG)
		b.says(cds, "+"+nameG1+"@1")
		b.settle()
		b.pin(cds, nameG1) // GLOB-6
		b.expect(b.demand(0))
		b.unpin(cds, globG)
		b.letGo()
		b.expect(b.demand(0), "CDS +"+nameG1, "CDS -"+globG)
		if i := b.infoOf(cds, nameG1); i.State != "present" {
			t.Errorf("the pinned member is %s", i.State)
		}
	})
	t.Run("LIST-2 what does not exist is waited for", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		b.pin(cds, "a")
		b.demand(0)
		b.says(cds, "-a")
		b.letGo()
		b.expect(b.demand(0))
		b.says(cds, "+a@1")
		if i := b.infoOf(cds, "a"); i.State != "present" {
			t.Errorf("it came, and is %s", i.State)
		}
	})
	t.Run("LIST-2 a resumed stream asks for it, and presents it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.pin(cds, nameG1)
		b.expect(b.connect(0), "CDS +"+nameG1)
		b.says(cds, "+"+nameG1+"@1")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +"+nameG1+" ="+nameG1+"@1")
	})
	t.Run("SUB-11 pinning what waits to be let go keeps it", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.connect(0)
		p := b.join()
		p.sub(cds, "a")
		b.demand(0)
		b.says(cds, "+a@1")
		p.leave()
		b.pin(cds, "a")
		b.letGo()
		b.expect(b.demand(0))
		b.unpin(cds, "a")
		b.letGo()
		b.pin(cds, "a")
		b.expect(b.demand(0))
	})
	t.Run("LIST-2 limits do not evict what is pinned", func(t *testing.T) {
		b := newBed(t, cache.Limits{MaxResources: 1})
		b.connect(0)
		b.pin(cds, "a", "b")
		b.demand(0)
		b.says(cds, "+a@1", "+b@1")
		b.expect(b.demand(0))
		b.unpin(cds, "a")
		b.expect(b.demand(0), "CDS -a")
	})
}

func TestPin_LIST3(t *testing.T) {
	held := func(t *testing.T) *bed {
		t.Helper()
		b := newBed(t, cache.Limits{Idle: time.Hour})
		b.connect(0)
		b.pin(cds, "a", globQ)
		b.demand(0)
		b.says(cds, "+a@1", "+"+nameQ+"@1")
		return b
	}
	t.Run("LIST-3 unlisted, it is let go at once", func(t *testing.T) {
		b := held(t)
		b.unlist(cds, "a", globQ2)
		b.expect(b.demand(0), "CDS -a -"+globQ)
		if b.seen.evicted[cache.ReasonUnlisted] != 2 || b.cache.Resources() != 0 {
			t.Errorf("evicted: %v, left: %d", b.seen.evicted, b.cache.Resources())
		}
	})
	t.Run("SUB-11 its directory unwatched, it stays warm", func(t *testing.T) {
		b := held(t)
		b.unpin(cds, "a", globQ)
		b.expect(b.demand(0))
		if b.cache.Unwatched() != 2 {
			t.Errorf("%d wait to be evicted", b.cache.Unwatched())
		}
		b.letGo()
		b.expect(b.demand(0), "CDS -a -"+globQ)
	})
	t.Run("LIST-3 another directory lists it", func(t *testing.T) {
		b := held(t)
		b.pin(cds, "a", globQ)
		b.unlist(cds, "a", globQ)
		b.letGo()
		b.expect(b.demand(0))
	})
	t.Run("LIST-3 a client asks for it", func(t *testing.T) {
		b := held(t)
		p := b.join()
		p.sub(cds, "a", globQ)
		b.unlist(cds, "a", globQ)
		b.expect(b.demand(0))
		p.leave()
		b.expect(b.demand(0))
		if b.cache.Unwatched() != 2 {
			t.Errorf("%d wait to be evicted", b.cache.Unwatched())
		}
	})
	t.Run("LIST-3 the client goes while it is pinned", func(t *testing.T) {
		b := held(t)
		p := b.join()
		p.sub(cds, "a", globQ)
		p.leave()
		b.letGo()
		b.expect(b.demand(0))
	})
	t.Run("LIST-3 never asked for, it is forgotten without a word", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		b.pin(cds, "a", globG)
		b.unlist(cds, "a", globG)
		if b.store.Session().Wanted() != 0 || len(b.store.Resources("", "")) != 0 {
			t.Errorf("%d wanted, left: %v", b.store.Session().Wanted(), b.store.Resources("", ""))
		}
	})
	t.Run("LIST-3 what has no pin", func(t *testing.T) {
		b := held(t)
		b.unlist(cds, "b", globG)
		b.unpin(eds, "a")
		b.expect(b.demand(0))
	})
	t.Run("LIST-3 a member that changes costs nobody a word", func(t *testing.T) {
		b := held(t)
		p := b.join()
		p.sub(cds, "c")
		b.demand(0)
		p.collect()
		p.rang()
		b.says(cds, "+a@2")
		if p.rang() {
			t.Error("a client was woken")
		}
		b.expect(p.collect())
	})
}
