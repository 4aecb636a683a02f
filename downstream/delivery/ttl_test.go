package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// timed is a Form that can do ttl.
var timed = Form{TTL: true}

// after lets time pass and settles, as the session does when the store asked for it.
func (b *bed) after(d time.Duration) {
	b.Helper()
	end := time.Now().Add(d)
	for {
		at := b.store.Session().Settle(time.Now())
		b.check()
		if at.IsZero() || at.After(end) {
			break
		}
		<-time.After(time.Until(at))
	}
	<-time.After(time.Until(end))
	b.store.Session().Settle(time.Now())
	b.check()
}

// pair is a bed with two clients that subscribe to the same, one of which can do
// ttl, and the names that they get for a member.
type pair struct {
	*bed

	able, plain *peer
	member      string
}

// each runs a test for each way to subscribe to a resource.
func each(t *testing.T, name string, test func(b *pair)) {
	t.Helper()
	for sub, member := range map[string]string{"*": "a", globG: nameG1, "a": "a"} {
		t.Run(name+", subscribed as "+strings.ReplaceAll(sub, "/", "|"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &pair{bed: newBed(t, cache.Limits{}), member: member}
				b.able, b.plain = b.joinAs(timed), b.join()
				b.able.sub(cds, sub)
				b.plain.sub(cds, sub)
				b.connect(0)
				test(b)
			})
		})
	}
}

// says replaces "m" by the member's name.
func (b *pair) says(words ...string) {
	b.Helper()
	b.bed.says(cds, b.spell(words)...)
}

func (b *pair) spell(words []string) []string {
	spelled := slices.Clone(words)
	for i, w := range words {
		spelled[i] = w[:1] + b.member + strings.TrimPrefix(w[1:], "m")
	}
	return spelled
}

// gets expects what a client is sent: nothing, or one response.
func (b *pair) gets(p *peer, words ...string) {
	b.Helper()
	if len(words) == 0 {
		b.expect(p.collect())
		return
	}
	said := p.collect()
	for i := range said {
		said[i] = strings.Replace(said[i], "CDS!", "CDS", 1)
	}
	b.expect(said, "CDS "+strings.Join(b.spell(words), " "))
}

func TestTTL(t *testing.T) {
	each(t, "TTL-1 a ttl goes to whom announced it, and to nobody else", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.says("+m@2~20s")
		b.gets(b.able, "+m@2~20s")
		b.gets(b.plain, "+m@2")
	})
	each(t, "TTL-2 what runs out is gone: told to whom cannot do ttl only", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(10*time.Second - 1)
		b.gets(b.plain)
		b.after(1)
		if b.seen.expired != 1 || b.cache.Resources() != 0 {
			b.Fatalf("%d expired, %d held", b.seen.expired, b.cache.Resources())
		}
		b.gets(b.plain, "-m")
		b.gets(b.able)
		b.gets(b.able)
	})
	each(t, "TTL-2 what runs out does so with the upstream lost, and is not presented to it again", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.store.Session().Lost(streamOf(0))
		b.after(time.Minute)
		b.gets(b.plain, "-m")
		for _, said := range b.connect(0) {
			if strings.Contains(said, "=") {
				b.Errorf("presented: %s", said)
			}
		}
	})
	each(t, "TTL-2 a late client gets the remaining ttl, never zero", func(b *pair) {
		b.says("+m@1~10s")
		<-time.After(4 * time.Second)
		b.gets(b.able, "+m@1~6s")
		b.able.sub(cds, b.plain.spellings()...)
		<-time.After(6 * time.Second)
		b.gets(b.able, "+m@1~1ms") // before it is dropped
		b.able.sub(cds, b.plain.spellings()...)
		<-time.After(time.Hour)
		b.gets(b.able, "+m@1~1ms")
	})
	each(t, "TTL-2 a client that was not sent it in time is not sent it any more", func(b *pair) {
		b.says("+m@1~10s")
		b.after(10 * time.Second)
		for _, p := range []*peer{b.able, b.plain} {
			for _, said := range p.collect() {
				if strings.Contains(said, "+") {
					b.Errorf("sent %s", said)
				}
			}
		}
	})
	each(t, "TTL-2 a client that knows older content or an older ttl only is told", func(b *pair) {
		b.says("+m@1")
		b.gets(b.able, "+m@1")
		b.says("+m@2~10s")
		b.after(10 * time.Second)
		b.gets(b.able, "-m")
		b.says("+m@3~1h")
		b.gets(b.able, "+m@3~1h0m0s")
		b.says("=m@3~10s")
		b.after(10 * time.Second)
		b.gets(b.able, "-m")
		b.gets(b.able)
	})
	each(t, "TTL-2 what the server sends again is back", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(time.Minute)
		b.gets(b.plain, "-m")
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.says("+m@2")
		b.gets(b.able, "+m@2")
		b.gets(b.plain, "+m@2")
		b.after(time.Hour)
		b.gets(b.plain)
	})
	each(t, "TTL-2 between expiry and the next collect it comes back, or is removed", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(time.Minute)
		b.says("+m@2~10s")
		b.gets(b.able, "+m@2~10s")
		b.gets(b.plain, "+m@2")
		b.says("-m")
		b.gets(b.able, "-m")
		b.gets(b.plain, "-m")
	})
	each(t, "TTL-3 RES-16 a heartbeat renews the ttl, and is passed on to whom can do ttl", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.able.rang()
		b.plain.rang()
		b.after(8 * time.Second)
		b.says("=m@1~10s")
		if !b.able.rang() || b.plain.rang() {
			b.Error("the wrong client was woken")
		}
		b.gets(b.plain)
		<-time.After(2*time.Second - 1)
		b.gets(b.able, "=m@1~8.000000001s")
		b.gets(b.able)
		b.after(8 * time.Second)
		b.gets(b.plain)
		b.after(1)
		b.gets(b.plain, "-m")
		b.gets(b.able)
	})
	each(t, "TTL-3 RES-4 a heartbeat after the client dropped the content is the content", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.after(8 * time.Second)
		b.says("=m@1~10s")
		<-time.After(2 * time.Second)
		b.gets(b.able, "+m@1~8s")
		b.gets(b.able)
		b.after(7 * time.Second)
		b.says("=m@1~10s")
		b.gets(b.able, "=m@1~10s")
		b.says("+m@1")
		b.gets(b.able, "+m@1")
		b.says("=m@1~10s") // of what has no ttl nothing was dropped
		b.after(9 * time.Second)
		b.gets(b.able, "=m@1~1s")
	})
	each(t, "TTL-3 RES-4 who missed two heartbeats gets the content", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.after(8 * time.Second)
		b.says("=m@1~10s")
		b.after(4 * time.Second)
		b.says("=m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.able)
		b.says("=m@1~10s")
		b.gets(b.able, "=m@1~10s")
	})
	each(t, "TTL-3 ten heartbeats while a client is busy are one response", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.able.rang()
		b.able.busy[cds] = true
		for range 10 {
			b.says("=m@1~10s")
			b.gets(b.able)
		}
		b.able.busy[cds] = false
		b.gets(b.able, "+m@1~10s")
		b.gets(b.able)
	})
	each(t, "TTL-3 RES-4 a client behind the content gets it, and no heartbeat beside it", func(b *pair) {
		b.says("+m@1~10s")
		b.says("=m@1~20s")
		b.gets(b.able, "+m@1~20s")
		b.gets(b.able)
		b.says("=m@1~20s")
		b.says("+m@2~30s")
		b.gets(b.able, "+m@2~30s")
		b.gets(b.able)
		b.says("+m@3~30s")
		b.says("=m@3~40s")
		b.gets(b.able, "+m@3~40s")
		b.gets(b.able)
		b.gets(b.plain, "+m@3")
	})
	each(t, "TTL-3 subscribing again while a heartbeat waits sends the content", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.says("=m@1~10s")
		b.able.sub(cds, b.plain.spellings()...)
		b.gets(b.able, "+m@1~10s")
		b.gets(b.able)
	})
	each(t, "TTL-3 a heartbeat without ttl renews the one that there is", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.after(5 * time.Second)
		b.says("=m@1")
		b.gets(b.able, "=m@1~10s")
		b.says("+m@2")
		b.gets(b.able, "+m@2")
		b.says("=m@2")
		b.gets(b.able)
	})
	each(t, "RES-16 TTL-3 a heartbeat for what expired, or for another version, is none", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(time.Minute)
		b.gets(b.plain, "-m")
		b.says("=m@1~10s")
		b.gets(b.plain)
		b.gets(b.able)
		b.says("+m@2~10s")
		b.gets(b.able, "+m@2~10s")
		b.gets(b.plain, "+m@2")
		b.says("=m@1~10s")
		b.gets(b.able, "-m")
		b.gets(b.plain, "-m")
	})
	each(t, "TTL-4 resending with another ttl changes it", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.says("+m@1~20s")
		b.gets(b.able, "=m@1~20s")
		b.gets(b.plain)
		b.after(20*time.Second - 1)
		b.gets(b.plain)
		b.after(1)
		b.gets(b.plain, "-m")
	})
	each(t, "TTL-4 resending with a ttl gives it one", func(b *pair) {
		b.says("+m@1")
		b.gets(b.able, "+m@1")
		b.gets(b.plain, "+m@1")
		b.says("+m@1~20s")
		b.gets(b.able, "=m@1~20s")
		b.gets(b.plain)
		b.after(20 * time.Second)
		b.gets(b.plain, "-m")
	})
	each(t, "TTL-4 resending without ttl removes it", func(b *pair) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.says("+m@1")
		b.gets(b.able, "+m@1")
		b.gets(b.plain)
		b.after(time.Hour)
		b.gets(b.able)
		b.gets(b.plain)
		b.says("+m@1~10s")
		b.gets(b.able, "=m@1~10s")
	})
}

// spellings are what the peer subscribed to.
func (p *peer) spellings() []string {
	var all []string
	for _, w := range p.c.types {
		for sub := range w.subs.names.all() {
			all = append(all, sub.spelling)
		}
		for glob := range w.subs.globs.all {
			all = append(all, glob)
		}
		if w.subs.wildcard != nil {
			all = append(all, cache.Wildcard)
		}
	}
	return all
}

func TestTTLOfLateClients(t *testing.T) {
	run := func(name string, test func(b *bed, c, late *peer)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c, late := b.joinAs(timed), b.joinAs(timed)
				c.sub(cds, "a", globG)
				b.connect(0)
				b.says(cds, "+a@1~10s", "+"+nameG1+"@1~10s")
				c.collect()
				test(b, c, late)
			})
		})
	}
	run("TTL-2 RES-11 who holds it already needs the remaining ttl", func(b *bed, _, late *peer) {
		<-time.After(4 * time.Second)
		late.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.expect(late.collect(), "CDS =a@1~6s ="+nameG1+"@1~6s")
		b.expect(late.collect())
	})
	run("TTL-4 RES-11 who holds it may have a ttl that was removed meanwhile", func(b *bed, _, late *peer) {
		b.says(cds, "+a@1", "+"+nameG1+"@1")
		late.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.expect(late.collect(), "CDS +a@1 +"+nameG1+"@1")
	})
	run("TTL-2 RES-11 who presents what came later may have dropped it meanwhile", func(b *bed, _, late *peer) {
		late.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.after(10 * time.Second)
		b.says(cds, "+a@1~10s", "+"+nameG1+"@1~10s")
		b.expect(late.collect(), "CDS +a@1~10s +"+nameG1+"@1~10s")
	})
	run("TTL-3 RES-11 who said long ago that it holds it may have dropped it meanwhile", func(b *bed, c, late *peer) {
		soon := b.joinAs(timed)
		c.leave()
		b.after(8 * time.Second)
		b.says(cds, "=a@1~10s", "="+nameG1+"@1~10s") // c is not told, and has it until 10s
		late.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.after(3 * time.Second)
		b.expect(late.collect(), "CDS +a@1~7s +"+nameG1+"@1~7s")
		b.expect(late.collect())
		soon.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.after(underWay - 1)
		b.expect(soon.collect(), "CDS =a@1~6.000000001s ="+nameG1+"@1~6.000000001s")
	})
	run("TTL-2 RES-6 who names what expired is told that it does not exist", func(b *bed, _, late *peer) {
		b.after(10 * time.Second)
		late.sub(cds, "a")
		b.expect(late.collect(), "CDS -a")
	})
	run("TTL-2 RES-11 who presents what expired is told", func(b *bed, _, late *peer) {
		b.after(time.Minute)
		late.resume(cds, []string{"a@1", nameG1 + "@1"}, "a", globG)
		b.expect(late.collect(), "CDS -a -"+nameG1)
	})
	run("TTL-2 RES-17 what nobody watches is let go when it expires", func(b *bed, c, _ *peer) {
		c.unsub(cds, "a")
		b.after(time.Minute)
		b.expect(b.demand(0), "CDS -a")
	})
	run("TTL-2 GLOB-6 a member that is named too is asked for by itself", func(b *bed, c, _ *peer) {
		b.says(cds, "+"+nameG1+"@1~1h")
		b.after(2 * quiet)
		c.sub(cds, nameG1)
		b.expect(b.demand(0))
		b.after(time.Hour)
		b.expect(b.demand(0), "CDS +"+nameG1)
	})
	run("TTL-3 GLOB-5 who has a name and its glob gets one heartbeat", func(b *bed, c, _ *peer) {
		c.sub(cds, nameG1)
		c.collect()
		b.says(cds, "="+nameG1+"@1~20s")
		b.expect(c.collect(), "CDS ="+nameG1+"@1~20s")
		c.unsub(cds, nameG1)
		b.says(cds, "="+nameG1+"@1~30s")
		b.expect(c.collect(), "CDS ="+nameG1+"@1~30s")
	})
}

func TestHeartbeats(t *testing.T) {
	t.Run("TTL-3 heartbeats of a collection cost what is new of them", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, many("+", "m", 0, 5, "@1~10s")...)
			c.collect()
			b.says(cds, "=m00003@1~10s", "=m00001@1~10s")
			b.expect(c.collect(), "CDS =m00003@1~10s =m00001@1~10s")
			b.says(cds, "=m00003@1~20s", "=m00002@1~10s", "+m00001@2~10s")
			b.expect(c.collect(), "CDS =m00003@1~20s =m00002@1~10s +m00001@2~10s")
			b.expect(c.collect())
		})
	})
	t.Run("TTL-3 RES-9 many are split, and none is lost or sent twice", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, many("+", "m", 0, 500, "@1~10s")...)
			c.collect()
			b.says(cds, many("=", "m", 0, 500, "@1~10s")...)
			c.size = 700
			said := strings.Fields(strings.Join(c.collect(), " "))
			said = slices.DeleteFunc(said, func(w string) bool { return w == "CDS" })
			b.expect(said, many("=", "m", 0, 500, "@1~10s")...)
		})
	})
	t.Run("TTL-3 ADS-2 a heartbeat overtakes no acknowledgement, and holds nothing back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.sub(cds, "*", "n")
			c.sub(rds, "*")
			b.connect(0)
			b.connect(1)
			b.says(cds, "+a@1~10s", "+x@1")
			b.saysOn(1, cds, "+n@1~10s")
			b.says(rds, "+r@1~10s")
			c.collect()
			c.busy[cds] = true
			b.says(cds, "=a@1~10s")
			b.saysOn(1, cds, "=n@1~10s")
			b.says(rds, "+r@2~10s")
			b.expect(c.collect(), "RDS +r@2~10s")
			c.busy[cds], c.busy[rds] = false, true
			b.says(rds, "=r@2~20s")
			b.says(cds, "-x")
			b.expect(c.collect(), "CDS =n@1~10s", "CDS =a@1~10s")
			c.busy[rds] = false
			b.expect(c.collect(), "CDS -x", "RDS =r@2~20s")
		})
	})
	t.Run("TTL-2 ADS-1 what expired while removals are held back is told to whom it concerns", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.sub(cds, "*")
			c.sub(rds, "*")
			b.connect(0)
			b.says(cds, "+old@1", "+level@1~10s")
			b.says(rds, "+r@1")
			c.collect()
			b.says(cds, "+old@2~10s")
			b.after(10 * time.Second)
			c.busy[rds] = true
			b.says(rds, "+r@2")
			b.says(cds, "+new@1")
			b.expect(c.collect(), "CDS +new@1")
			b.says(cds, "+new@2")
			b.expect(c.collect(), "CDS +new@2")
			c.busy[rds] = false
			b.expect(c.collect(), "RDS +r@2")
			b.expect(c.collect(), "CDS -old")
		})
	})
	t.Run("TTL-3 RES-10 an alias is renewed with its resource", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c, plain := b.joinAs(timed), b.join()
			c.sub(rds, "x")
			plain.sub(rds, "x")
			b.connect(0)
			b.says(rds, "+vh@1~10s|x")
			b.expect(c.collect(), "RDS +vh@1~10s")
			b.expect(plain.collect(), "RDS +vh@1")
			b.after(5 * time.Second)
			b.says(rds, "=vh@1~10s")
			b.expect(c.collect(), "RDS +vh@1~10s") // in place of a heartbeat: see pass.renew
			b.expect(plain.collect())
			b.after(10 * time.Second)
			b.expect(plain.collect(), "RDS -x")
			b.expect(c.collect())
		})
	})
	t.Run("TTL-3 RES-14 a heartbeat confirms a member", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			c := b.joinAs(timed)
			c.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1~1h", "+b@1~1h")
			c.collect()
			b.store.Session().Lost(streamOf(0))
			b.connectWithin(0, 1)
			b.says(cds, "=a@1~1h")
			b.after(2 * quiet)
			b.expect(c.collect(), "CDS =a@1~59m30s -b")
		})
	})
	t.Run("TTL-1 ACK-6 a ttl that is not above zero is refused, and the rest is taken", func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(cds, "a", "b", "c")
		err := b.apply(0, response(cds, "+a@1~0s", "+b@1~10s", "=c@1~-5s"))
		want := `resource "a" has a ttl of 0s: it must be above zero` + "\n" + `resource "c" has a ttl of -5s: it must be above zero`
		if err == nil || err.Error() != want {
			t.Errorf("got %v\nwant %s", err, want)
		}
		b.expect(c.collect(), "CDS +b@1")
	})
}

// A heartbeat costs no memory where nobody can do ttl, and little where one is sent.
func TestAllocationsTTL3(t *testing.T) {
	for form, most := range map[Form]float64{{}: 3, timed: 3 + 5} {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(form)
		c.sub(cds, "*", "n")
		b.connect(0)
		b.connect(1)
		b.says(cds, many("+", "m", 0, 1000, "@1~1h")...)
		c.take(1 << 20)
		beat := response(cds, "=m00500@1~1h")
		want := 0
		if form.TTL {
			want = 1
		}
		got := testing.AllocsPerRun(100, func() {
			if err := b.store.Session().Apply(streamOf(0), beat, time.Now()); err != nil {
				t.Fatal(err)
			}
			if n := c.take(1 << 20); n != want {
				t.Fatalf("%d heartbeats sent", n)
			}
		})
		if got > most {
			t.Errorf("%v allocations, can do ttl: %t", got, form.TTL)
		}
	}
}

func TestInfoTTL2_expires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := newBed(t, cache.Limits{}).subscribed(cds, "a", "b", "gone")
		b.says(cds, "+a@1~10s", "+b@1", "+gone@1~5s")
		want := time.Now().Add(10 * time.Second)
		b.after(5 * time.Second)
		if got := b.infoOf(cds, "a").Expires; !got.Equal(want) {
			t.Errorf("expires at %v, want %v", got, want)
		}
		for _, name := range []string{"b", "gone"} {
			if got := b.infoOf(cds, name).Expires; !got.IsZero() {
				t.Errorf("%q expires at %v", name, got)
			}
		}
	})
}
