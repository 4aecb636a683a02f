package delivery

import (
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

func TestAliases(t *testing.T) {
	t.Run("RES-10 a subscription by alias is served by the resource that carries it", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+real@1|alias,another")
		b.expect(c.collect(), "CDS +real@1")
		b.says(cds, "+real@2|alias")
		b.expect(c.collect(), "CDS +real@2")
		if b.cache.Resources() != 1 || b.seen.unsolicited != 0 {
			t.Fatalf("%d resources, %d unsolicited", b.cache.Resources(), b.seen.unsolicited)
		}
	})
	t.Run("RES-10 RES-5 and removed with it, under the name that was subscribed and its own, by which the client knows it", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+real@1|alias")
		c.collect()
		b.says(cds, "-real")
		b.expect(c.collect(), "CDS -alias -real")
	})
	t.Run("RES-10 RES-5 a removal that names an alias before the resource, as a relay's does", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+real@1|alias")
		c.collect()
		b.says(cds, "-alias", "-real")
		b.expect(c.collect(), "CDS -alias -real")
	})
	t.Run("RES-10 a resource that gives an alias up does not serve it any more", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "one", "other")
		b.says(cds, "+real@1|one,other")
		b.expect(c.collect(), "CDS +real@1")
		b.says(cds, "+real@2|other")
		b.expect(c.collect(), "CDS +real@2 -one")
	})
	t.Run("RES-10 an alias moves from one resource to another", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+old@1|alias")
		b.expect(c.collect(), "CDS +old@1")
		b.says(cds, "+new@1|alias")
		b.expect(c.collect(), "CDS +new@1")
		b.says(cds, "-old")
		b.expect(c.collect())
		b.says(cds, "-new")
		b.expect(c.collect(), "CDS -alias -new")
	})
	t.Run("RES-4 by name and by alias: once in a response", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "real", "alias", "other")
		b.says(cds, "+real@1|alias,other")
		b.expect(c.collect(), "CDS +real@1")
	})
	t.Run("RES-10 an alias that is listed twice, or is the name itself", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias", "real")
		b.says(cds, "+real@1|alias,real,alias")
		b.expect(c.collect(), "CDS +real@1")
		b.says(cds, "-alias")
		b.says(cds, "+real@2|alias,alias")
		b.says(cds, "-real")
		b.expect(c.collect(), "CDS -alias -real")
		c.leave()
		b.letGo()
		b.demand(0)
		if b.cache.Resources() != 0 || b.cache.Bytes() != 0 {
			t.Fatalf("left: %d resources, %d bytes", b.cache.Resources(), b.cache.Bytes())
		}
	})
	t.Run("RES-10 a bad alias is nobody's", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+real@1|xdstp://%,alias")
		b.expect(c.collect(), "CDS +real@1")
	})
	t.Run("RES-10 a resource of that very name goes before one that has it as an alias", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.says(cds, "+a@own")
		b.expect(c.collect(), "CDS +a@own")
		b.says(cds, "+thief@1|a")
		b.expect(c.collect())
		b.says(cds, "+a@own2")
		b.expect(c.collect(), "CDS +a@own2")
	})
	t.Run("RES-10 and takes its place", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a")
		b.says(cds, "+other@1|a")
		b.expect(c.collect(), "CDS +other@1")
		b.says(cds, "+a@own")
		b.expect(c.collect(), "CDS +a@own")
		b.says(cds, "-other")
		b.expect(c.collect())
	})
	// A member of a glob is removed; its name, which somebody subscribed to, is
	// served as an alias then. It must not become a member again.
	t.Run("RES-10 GLOB-1 an alias is no member of a glob", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		all, one, behind := b.join(), b.join(), b.join()
		all.sub(cds, globG)
		behind.sub(cds, globG)
		one.sub(cds, nameG1)
		b.connect(0)
		b.says(cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
		b.says(cds, "+"+nameG1+"@1")
		all.collect()
		behind.collect()
		one.collect()
		b.says(cds, "-"+nameG1)
		b.expect(all.collect(), "CDS -"+nameG1)
		b.says(cds, "+real@1|"+nameG1)
		b.expect(one.collect(), "CDS +real@1")
		b.expect(all.collect())
		b.expect(behind.collect(), "behind") // it was not told of the removal, and cannot be now
	})
	t.Run("RES-12 a resume presents resources, not aliases", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias", "real")
		b.says(cds, "+real@1|alias")
		b.store.Session().Lost(streamOf(0))
		b.expect(b.connect(0), "CDS +alias +real =real@1")
		c.collect()
		b.says(cds, "+real@1|alias")
		b.expect(c.collect())
	})
	t.Run("RES-10 evicting who asked for the alias ends it", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "alias")
		b.says(cds, "+real@1|alias")
		c.leave()
		b.letGo()
		b.expect(b.demand(0), "CDS -alias")
		if u := b.upkeep(cds, cache.ByName); u.Aliased+u.Entries != 0 {
			t.Fatalf("left: %d aliased, %d entries", u.Aliased, u.Entries)
		}
		b.says(cds, "+real@2|alias")
		if b.seen.unsolicited != 1 {
			t.Fatalf("SUB-13: counted %d", b.seen.unsolicited)
		}
	})
}
