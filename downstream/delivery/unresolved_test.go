package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// A name that stands for nothing is answered by a resource that has it as an alias, and no
// payload.
func TestUnresolved(t *testing.T) {
	run := func(name string, f func(b *bed)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newSharedBed(t)) })
		})
	}
	run("RES-16 it is passed on as it came", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a", "b", "c")
		b.connect(0)
		b.says(vhds, "=none|a,b")
		b.expect(c.collect(), "VHDS =none@")
		if got := b.infoOf(vhds, "a").State; got != "absent" {
			b.Errorf("a is %s", got)
		}
		b.says(vhds, "=none|a,b")
		b.expect(c.collect()) // they were told
		b.says(vhds, "-a")
		b.expect(c.collect())
		b.says(vhds, "=c|c")
		b.expect(c.collect(), "VHDS =c@")
		if b.seen.unsolicited != 0 {
			b.Errorf("%d unsolicited", b.seen.unsolicited)
		}
	})
	run("RES-16 to who subscribes later too, for whom the server is asked again, at most once a second", func(b *bed) {
		first := b.join()
		first.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "=a|a")
		first.collect()
		second := b.join()
		second.sub(vhds, "a")
		b.expect(second.collect(), "VHDS =a@")
		b.expect(b.demand(0)) // it has just said so
		<-time.After(time.Second)
		third, fourth := b.join(), b.join()
		third.sub(vhds, "a")
		fourth.sub(vhds, "a")
		b.expect(third.collect(), "VHDS =a@")
		b.expect(b.demand(0), "VHDS +a")
		fourth.sub(vhds, "a") // SUB-6
		b.expect(fourth.collect(), "VHDS =a@")
		b.expect(b.demand(0))
		b.says(vhds, "=a|a")
		b.expect(first.collect())
		b.expect(fourth.collect())
		<-time.After(time.Second)
		fourth.sub(vhds, "a")
		b.expect(fourth.collect(), "VHDS =a@")
		b.expect(b.demand(0), "VHDS +a")
	})
	run("RES-16 SUB-9 until it appears", func(b *bed) {
		c, d := b.join(), b.join()
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "=a|a")
		c.collect()
		d.sub(vhds, "a")
		d.collect()
		b.says(vhds, "+rc/a@1|a")
		b.expect(c.collect(), "VHDS +rc/a@1")
		b.expect(d.collect(), "VHDS +rc/a@1")
		b.says(vhds, "-rc/a")
		b.expect(c.collect(), "VHDS -a -rc/a")
		b.says(vhds, "=a|a")
		b.expect(c.collect(), "VHDS =a@")
	})
	run("RES-16 when one of its names appears the server is asked for the others again", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a", "b")
		b.connect(0)
		b.says(vhds, "=none|a,b")
		c.collect()
		b.says(vhds, "+a@1")
		b.expect(c.collect(), "VHDS +a@1")
		b.expect(b.demand(0), "VHDS +b")
		late := b.join()
		late.sub(vhds, "b")
		b.expect(late.collect())
		b.says(vhds, "=b|b")
		b.expect(late.collect(), "VHDS =b@")
		c.collect()
	})
	t.Run("RES-16 RES-7 of which a clock runs then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, Shared: map[string]bool{vhds: true}})
			c := b.join()
			c.sub(vhds, "a", "b")
			b.connect(0)
			b.says(vhds, "=none|a,b")
			c.collect()
			b.says(vhds, "+a@1")
			b.expect(b.demand(0), "VHDS +b")
			if at := b.store.Session().Settle(time.Now()); !at.Equal(time.Now().Add(absentAfter)) {
				t.Errorf("the clock ends at %v", at)
			}
			b.check()
		})
	})
	run("RES-16 what was there and is not resolved any more", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "+rc/a@1|a")
		c.collect()
		b.says(vhds, "=a|a")
		b.expect(c.collect(), "VHDS =a@")
		b.says(vhds, "+rc/a@2|a")
		b.expect(c.collect(), "VHDS +rc/a@2")
	})
	run("RES-16 a heartbeat has the version that is held, and that is not empty", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a", "alias")
		b.connect(0)
		b.says(vhds, "+a@1", "+real@1|alias")
		c.collect()
		b.says(vhds, "=a@1", "=real@1|alias")
		b.expect(c.collect())
		b.says(vhds, "+a@:x", "=real@2|alias")
		b.expect(c.collect(), "VHDS +a@"+resource(vhds, "a@:x").Shown()+" =real@2")
		b.says(vhds, "=a@")
		b.expect(c.collect(), "VHDS -a")
	})
	run("RES-17 nobody keeps the answer for a name that nobody wants", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "=a|a")
		c.leave()
		b.expect(b.demand(0), "VHDS -a")
		b.says(vhds, "=a|a")
		if b.seen.unsolicited != 1 {
			b.Errorf("%d unsolicited, want 1", b.seen.unsolicited)
		}
		c = b.join()
		c.sub(vhds, "a")
		b.expect(c.collect())
	})
	run("RES-16 OPS-1 a later client while the server is gone, and after it came back", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "=a|a")
		c.collect()
		b.store.Session().Lost(streamOf(0))
		<-time.After(2 * time.Second)
		d := b.join()
		d.sub(vhds, "a")
		b.expect(d.collect(), "VHDS =a@")
		b.expect(b.connect(0), "VHDS +a")
		b.says(vhds, "=a|a")
		b.expect(c.collect())
		b.expect(d.collect())
	})
	run("ABS-1 RES-16 a client of the state of the world has an error", func(b *bed) {
		c := b.joinAs(Form{State: true})
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "=a|a")
		b.expect(c.lists(), "VHDS !a")
		b.says(vhds, "+rc/a@1|a")
		b.expect(c.lists(), "VHDS rc/a1")
	})
}

// A client knows a resource that it has by an alias by its own name.
func TestAliasesPresented(t *testing.T) {
	run := func(name string, f func(b *bed)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newSharedBed(t)) })
		})
	}
	run("RES-10 RES-11 it is not sent again, nor told as removed", func(b *bed) {
		before := b.join()
		before.sub(vhds, "*", "a")
		b.connect(0)
		b.says(vhds)
		b.says(vhds, "+rc/a@1|a")
		b.settle()
		before.collect()
		back := b.join()
		back.resume(vhds, []string{"rc/a@1"}, "*", "a")
		b.expect(back.collect())
		b.says(vhds, "+rc/a@2|a")
		b.expect(back.collect(), "VHDS +rc/a@2")
		b.says(vhds, "-rc/a")
		b.expect(back.collect(), "VHDS -a -rc/a")
	})
	run("RES-10 RES-11 by a relay that is cold", func(b *bed) {
		back := b.join()
		back.resume(vhds, []string{"rc/a@1", "rc/gone@1"}, "*", "a", "b")
		b.connect(0)
		b.says(vhds) // the wildcard has nothing
		b.settle()
		b.expect(back.collect()) // what it holds may be what a and b stand for
		b.says(vhds, "+rc/a@1|a")
		b.expect(back.collect())
		b.says(vhds, "=b|b")
		b.expect(back.collect(), "VHDS =b@", "VHDS -rc/gone")
	})
	t.Run("RES-10 RES-7 a server's silence about a name takes nothing away", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet, Absent: absentAfter, Shared: map[string]bool{vhds: true}})
			back := b.join()
			back.resume(vhds, []string{"rc/a@1"}, "*", "a")
			b.connect(0)
			b.says(vhds)
			b.settle()
			<-time.After(2 * absentAfter)
			b.settle()
			b.expect(back.collect())
			b.says(vhds, "-a")
			b.expect(back.collect(), "VHDS -a", "VHDS -rc/a")
		})
	})
	run("RES-10 ERR-1 a resource that is not found", func(b *bed) {
		c := b.join()
		c.sub(vhds, "a")
		b.connect(0)
		b.says(vhds, "+rc/a@1|a")
		c.collect()
		b.fails(vhds, "rc/a", notFound)
		b.expect(c.collect(), "VHDS -a -rc/a")
	})
	run("RES-10 an older version is replaced", func(b *bed) {
		back := b.join()
		back.resume(vhds, []string{"rc/a@1"}, "*", "a")
		b.connect(0)
		b.says(vhds)
		b.says(vhds, "+rc/a@2|a")
		b.settle()
		b.expect(back.collect(), "VHDS +rc/a@2")
		b.expect(back.collect())
	})
	run("RES-10 RES-11 a client that follows no wildcard", func(b *bed) {
		before := b.join()
		before.sub(vhds, "a", "b")
		b.connect(0)
		b.says(vhds, "+rc/a@1|a", "+rc/b@2|b")
		before.collect()
		back := b.join()
		back.resume(vhds, []string{"rc/a@1", "rc/b@1"}, "a", "b")
		b.expect(back.collect(), "VHDS +rc/b@2")
		b.says(vhds, "-rc/a", "-rc/b")
		b.expect(back.collect(), "VHDS -a -rc/a -b -rc/b")
	})
	run("RES-10 what the client does not have by an alias is removed", func(b *bed) {
		other := b.join()
		other.sub(vhds, "*", "a")
		b.connect(0)
		b.says(vhds)
		b.says(vhds, "+rc/a@1|a")
		b.settle()
		back := b.join()
		back.resume(vhds, []string{"rc/a@1"}, "*")
		b.expect(back.collect(), "VHDS -rc/a")
	})
}
