package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/hold"
	"github.com/xdsrelay/xdsrelay/internal/wire"
	"google.golang.org/grpc/codes"
)

// freezes has an operator freeze types, all if there are none. Nothing else is frozen any longer.
func (b *bed) freezes(forTime time.Duration, types ...string) {
	b.Helper()
	f := hold.Freeze{Since: time.Now()}
	if forTime > 0 {
		f.Until = f.Since.Add(forTime)
	}
	b.store.Operator().Freeze(func(typeURL string, now time.Time) hold.Freeze {
		for _, t := range types {
			if t == typeURL && f.On(now) {
				return f
			}
		}
		if len(types) == 0 && f.On(now) {
			return f
		}
		return hold.Freeze{}
	}, nil)
	b.check()
}

// releases has an operator release everything.
func (b *bed) releases() {
	b.Helper()
	b.store.Operator().Freeze(nil, func(string) bool { return true })
	b.check()
}

// A frozen type changes for no client, and new clients get what is released (GATE-4).
func TestFreeze_GATE4(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"changes, removals and additions wait": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2", "-m00001", "+new@1")
			b.expect(c.collect())
			if n := b.seenByNew(cds, "*"); n != 20 {
				b.Fatalf("a new client gets %d", n)
			}
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.releases()
			b.expectAll(c.collect(), "CDS +m00000@2 +new@1 -m00001")
		},
		"the last word counts": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2", "-m00001", "+new@1", "-m00002")
			b.says(cds, "+m00000@3", "+m00001@1", "-new", "+m00002@9")
			b.expect(c.collect())
			b.releases()
			b.expectAll(c.collect(), "CDS +m00000@3 +m00002@9")
		},
		"what goes back to what it was is no change": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2")
			b.says(cds, "+m00000@1")
			b.releases()
			b.expect(c.collect())
		},
		"it ends by time": func(b *bed, c *peer) {
			b.freezes(time.Minute)
			b.says(cds, "+m00000@2")
			if at := b.elapses(time.Minute - time.Second); !at.Equal(time.Now().Add(time.Second)) {
				b.Fatalf("the next look is at %v", at)
			}
			b.expect(c.collect())
			if at := b.elapses(time.Second); !at.IsZero() {
				b.Fatalf("something waits until %v", at)
			}
			b.expect(c.collect(), "CDS +m00000@2")
			b.says(cds, "+m00000@3")
			b.expect(c.collect(), "CDS +m00000@3")
		},
		"other types flow": func(b *bed, c *peer) {
			b.freezes(0, rds)
			b.says(cds, "+m00000@2")
			b.expect(c.collect(), "CDS +m00000@2")
		},
		"the first answer is no change, the second one is": func(b *bed, c *peer) {
			b.freezes(0)
			c.sub(rds, "r")
			b.saysRoute("+r@1")
			b.expect(c.collect(), "RDS +r@1")
			b.saysRoute("+r@2")
			b.expect(c.collect())
			b.saysRoute("-r")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "RDS -r")
		},
		"what does not exist waits": func(b *bed, c *peer) {
			c.sub(rds, "r")
			b.saysRoute("-r")
			b.expect(c.collect(), "RDS -r")
			b.freezes(0)
			b.saysRoute("+r@1")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "RDS +r@1")
		},
		"an error that says nothing of the content": func(b *bed, c *peer) {
			c.sub(rds, "r")
			b.saysRoute("-r")
			b.expect(c.collect(), "RDS -r")
			b.freezes(0)
			b.saysRoute("+r@1")
			b.fails(rds, "r", codes.Unavailable)
			b.expect(c.collect(), "RDS !r")
			b.releases()
			b.expect(c.collect(), "RDS +r@1")
		},
		"new members of a glob that is empty again": func(b *bed, c *peer) {
			c.sub(cds, globG)
			b.connect(1)
			b.saysOn(1, cds, "-"+globG)
			b.expect(c.collect(), "CDS -"+globG)
			b.freezes(0)
			b.saysOn(1, cds, "+"+nameG1+"@1", "+"+nameG2+"@1")
			b.saysOn(1, cds, "-"+globG)
			b.saysOn(1, cds, "+"+nameG2+"@2")
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "CDS +"+nameG2+"@2")
		},
		"losses that the guard holds": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.freezes(0)
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.releases()
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 20 {
				b.Fatalf("got %q", got)
			}
		},
		"a command releases what the guard holds": func(b *bed, c *peer) {
			b.says(cds, many("-", "m", 0, 20, "")...)
			b.releases()
			if got := c.collect(); len(got) != 1 || strings.Count(got[0], " -") != 20 {
				b.Fatalf("got %q", got)
			}
			b.expect(b.seen.held, "CDS 20/20", "CDS 20/20 command")
		},
		"the relay resumes with what it received": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2", "-m00001", "+new@1")
			b.store.Session().Lost(streamOf(0))
			subs := b.store.Session().Restart(streamOf(0), 0)
			held := subs[0].Versions
			if _, gone := held["m00001"]; gone || held["m00000"] != "2" || held["new"] != "1" || held["m00002"] != "1" {
				b.Fatalf("presented %v", held)
			}
			b.says(cds, "-new", "+m00001@1")
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.releases()
			b.expect(c.collect(), "CDS +m00000@2")
		},
		"the relay resumes without versions": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2", "+new@1", "+newer@1")
			b.store.Session().Lost(streamOf(0))
			b.connectWithin(0, 1)
			b.says(cds, append(many("+", "m", 2, 20, "@1"), "+newer@1")...)
			b.elapses(time.Hour)
			b.expect(c.collect())
			b.releases()
			b.expectAll(c.collect(), "CDS +newer@1 -m00000 -m00001")
		},
		"what is released before the server has confirmed it": func(b *bed, c *peer) {
			b.freezes(0)
			b.says(cds, "+m00000@2", "+m00001@2")
			b.store.Session().Lost(streamOf(0))
			b.connectWithin(0, 1)
			b.releases()
			b.expect(c.collect(), "CDS +m00000@2 +m00001@2")
			b.says(cds, append(many("+", "m", 2, 20, "@1"), "+m00001@2")...)
			b.elapses(time.Hour)
			b.expect(c.collect(), "CDS -m00000")
		},
		"heartbeats of what is held keep what is released": func(b *bed, c *peer) {
			b.says(cds, "+m00000@2~60s")
			c.collect()
			b.freezes(0)
			b.says(cds, "+m00000@3~60s")
			for range 5 {
				b.elapses(50 * time.Second)
				b.says(cds, "=m00000@3~60s")
			}
			for _, line := range c.collect() {
				if strings.Contains(line, "-m00000") || strings.Contains(line, "@3") {
					b.Fatalf("got %q", line)
				}
			}
			b.releases()
			if got := strings.Join(c.collect(), " "); !strings.Contains(got, "+m00000@3") {
				b.Fatalf("got %q", got)
			}
		},
		"idle content stays": func(b *bed, c *peer) {
			c.sub(rds, "r")
			b.saysRoute("+r@1")
			c.collect()
			b.freezes(0)
			c.unsub(rds, "r")
			b.letGo()
			b.saysRoute("+r@2")
			c.sub(rds, "r")
			b.expect(c.collect(), "RDS +r@1")
			c.unsub(rds, "r")
			b.letGo()
			b.releases()
			b.letGo()
		},
		"an error that removes passes, unless it is NOT_FOUND": func(b *bed, c *peer) {
			b.freezes(0)
			r := &wire.Response{TypeURL: cds, Errors: []wire.ResourceError{
				{Name: "m00000", Code: notFound, Message: "why"}, {Name: "m00001", Code: codes.PermissionDenied, Message: "why"},
			}}
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			if got := strings.Join(c.collect(), " "); strings.Contains(got, "m00000") || !strings.Contains(got, "!m00001") {
				b.Fatalf("got %q", got)
			}
			b.releases()
			if got := strings.Join(c.collect(), " "); !strings.Contains(got, "!m00000") {
				b.Fatalf("got %q", got)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(newFilled(t)) })
		})
	}
}

// The same of a server of the state of the world.
func TestFreezeState_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, true)
		c := b.joinAs(Form{State: true})
		c.sub(cds, "*")
		b.connect(0)
		b.state(cds, "1", many("+", "m", 0, 3, "@1")...)
		c.lists()
		b.freezes(0)
		b.state(cds, "2", "+m00000@2", "+new@1", "+newer@1")
		b.expect(c.lists())
		if version := StateVersion([]*Place{c.c}, cds); version == "1" || version == "2" {
			t.Fatalf("clients are shown %q for what it does not stand for", version)
		}
		b.state(cds, "3", "+m00000@2", "+newer@1", "+m00001@1")
		b.expect(c.lists())
		b.releases()
		b.expect(c.lists(), "CDS m000002 m000011 newer1")
		if version := StateVersion([]*Place{c.c}, cds); version != "3" {
			t.Fatalf("clients are shown %q", version)
		}
	})
}

// Who names a new member of a frozen glob is told that there is none, and not that the server is silent.
func TestFreezeSilence_GATE4_RES7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newSilent(t, false)
		c := b.join()
		c.sub(cds, globG)
		b.connect(0)
		b.state(cds, "1", "+"+nameG2+"@1")
		b.elapses(quiet)
		b.expect(c.told(), "CDS +"+nameG2)
		c.sub(cds, nameG1)
		b.demand(0)
		b.freezes(0)
		b.state(cds, "2", "+"+nameG1+"@1")
		b.expect(c.collect(), "CDS -"+nameG1)
		b.elapses(absentAfter)
		b.expect(c.collect())
		b.releases()
		b.expect(c.told(), "CDS +"+nameG1)
	})
}

// What is released and what is received differ in what is listed.
func TestFreezeDifferences_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newGuarded(t, false)
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, many("+", "m", 0, 3, "@1")...)
		b.elapses(quiet)
		c.collect()
		if got := b.store.Operator().Held(true); len(got) != 0 {
			t.Fatalf("nothing is held, and it lists %v", got)
		}
		b.freezes(0)
		b.says(cds, "+m00000@2", "-m00001", "+new@1")
		got := b.store.Operator().Held(true)
		if len(got) != 1 || got[0].TypeURL != cds || got[0].Why != cache.HeldByOperator || !got[0].Since.Equal(time.Now()) || !got[0].Until.IsZero() {
			t.Fatalf("%+v", got)
		}
		var lines []string
		for _, d := range got[0].Names {
			var line strings.Builder
			line.WriteString(d.Name)
			for _, r := range []*wire.Resource{d.Released, d.Received} {
				if r == nil {
					line.WriteString(" -")
				} else {
					line.WriteString(" " + r.Version)
				}
			}
			lines = append(lines, line.String())
		}
		b.expect(lines, "m00000 1 2", "m00001 1 -", "new - 1")
		if n := len(b.store.Operator().Held(false)[0].Names); n != 0 {
			t.Fatalf("%d names are listed that nobody asked for", n)
		}
		b.releases()
		b.says(cds, many("+", "m", 0, 40, "@1")...)
		b.says(cds, many("-", "m", 0, 40, "")...)
		if got := b.store.Operator().Held(true); len(got) != 1 || got[0].Why != cache.HeldByGuard || got[0].Until.IsZero() || len(got[0].Names) != 40 {
			t.Fatalf("%+v", got)
		}
	})
}

// Where nothing is frozen, the possibility costs an update no allocation; and neither does it where
// another type is.
func TestFreezeCost_GATE4(t *testing.T) {
	measure := func(frozen bool) float64 {
		b := newBedOf(t, cache.Limits{}, cache.Source{Quiet: quiet})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		if frozen {
			b.freezes(0, rds)
		}
		var said []*wire.Response
		for i := range 2 {
			said = append(said, &wire.Response{TypeURL: cds, Resources: []*wire.Resource{resource(cds, fmt.Sprintf("m@%d", i))}})
		}
		rounds := 0
		return testing.AllocsPerRun(200, func() {
			rounds++
			if err := b.store.Session().Apply(streamOf(0), said[rounds%2], time.Now()); err != nil {
				t.Fatal(err)
			}
		})
	}
	if off, on := measure(false), measure(true); on > off {
		t.Errorf("%v allocations with a frozen type beside it, %v without", on, off)
	}
}

// A client that names a new member of a frozen glob is told that there is none, however the server
// answers: nothing of it is lost until the release (GATE-4).
func TestFreezeNamedMember_GATE4(t *testing.T) {
	const dir = "xdstp://x/envoy.config.cluster.v3.Cluster/g/"
	for name, state := range map[string]bool{"incremental": false, "state of the world": true} {
		for late, again := range map[string]bool{" answers again": true, " is silent": false} {
			t.Run(name+late, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newGuarded(t, state)
					says := func(version string, words ...string) {
						if state {
							b.state(cds, version, words...)
						} else {
							b.says(cds, words...)
						}
					}
					c := b.join()
					c.sub(cds, dir+"*")
					b.connect(0)
					says("1", "+"+dir+"0@1")
					b.elapses(time.Minute)
					c.collect()
					b.freezes(0)
					says("2", "+"+dir+"0@1", "+"+dir+"1@1")
					b.expect(c.collect())
					c.sub(cds, dir+"1")
					b.demand(0)
					if again {
						says("2", "+"+dir+"0@1", "+"+dir+"1@1")
						if got := strings.Join(c.collect(), " "); !strings.Contains(got, "-"+dir+"1") {
							t.Errorf("the client is told %q", got)
						}
					}
					b.elapses(time.Minute)
					c.collect()
					b.releases()
					if got := strings.Join(c.collect(), " "); !strings.HasPrefix(got, "CDS +"+dir+"1@") {
						t.Errorf("after the release the client is told %q", got)
					}
				})
			})
		}
	}
}

// A frozen relay that starts from a disk that lacks members, private keys for instance, holds nothing of them:
// clients have them, and lose them for nothing the server did (GATE-4, SUR-1).
func TestFreezeRestored_GATE4_SUR1(t *testing.T) {
	for _, lacks := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b, _ := newFilled(t)
			image := b.store.Snapshots().Image(func(string) bool { return false })
			if lacks {
				table := &image.Tables[0]
				table.Lacking = []string{"*"}
			}
			later := newGuarded(t, false)
			later.restore(image)
			c := later.join()
			c.sub(cds, "*")
			c.collect()
			later.freezes(0)
			later.connect(0)
			later.says(cds, append(many("+", "m", 0, 20, "@1"), "+key@1")...)
			later.elapses(time.Minute)
			if got := strings.Join(c.collect(), " "); strings.Contains(got, "+key@1") != lacks {
				t.Errorf("lacks %t: the client is told %q", lacks, got)
			}
		})
	}
}
