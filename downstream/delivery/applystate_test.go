package delivery

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// absentAfter is how long a name of the schedules may go unanswered (RES-7).
const absentAfter = 10 * time.Second

// newStateBed is a bed with a source that speaks the state of the world, of which
// listeners and clusters are always complete.
func newStateBed(tb testing.TB) *bed {
	tb.Helper()
	return newBedOf(tb, cache.Limits{}, cache.Source{
		Quiet: quiet, Absent: absentAfter, State: true, FullState: map[string]bool{lds: true, cds: true},
	})
}

// stateOf is a state of the world: "+name@content" without versions of resources,
// "~name" for a heartbeat, "!name" for an error.
func stateOf(typeURL, version string, words ...string) *wire.Response {
	r := &wire.Response{State: true, TypeURL: typeURL, Version: version}
	for _, w := range words {
		switch name, content, _ := strings.Cut(w[1:], "@"); w[0] {
		case '+':
			res := resource(typeURL, name+"@:"+content)
			r.Resources = append(r.Resources, res)
		case '~':
			r.Resources = append(r.Resources, heartbeat(name))
		case '!':
			r.Errors = append(r.Errors, wire.ResourceError{Name: name, Code: unavailable})
		}
	}
	return r
}

// state applies a state of the world on stream 0.
func (b *bed) state(typeURL, version string, words ...string) {
	b.Helper()
	if err := b.applyState(stateOf(typeURL, version, words...)); err != nil {
		b.Fatalf("Apply: %v", err)
	}
}

func (b *bed) applyState(r *wire.Response) error {
	b.Helper()
	err := b.store.Session().Apply(streamOf(0), r, time.Now())
	b.check()
	return err
}

// told is collect with the digests of versions left out.
func (p *peer) told() []string {
	p.Helper()
	var out []string
	for _, line := range p.collect() {
		words := strings.Fields(line)
		for i, w := range words {
			words[i], _, _ = strings.Cut(w, "@")
		}
		out = append(out, strings.Join(words, " "))
	}
	return out
}

func TestApplyState(t *testing.T) {
	for name, f := range map[string]func(b *bed, c *peer){
		"RES-2 a stream that begins anew says of what types something is held": func(b *bed, c *peer) {
			c.sub(cds, "*")
			c.sub(lds, "*")
			c.sub(eds, "x")
			b.expect(b.connect(0), "CDS +*", "EDS +x", "LDS +*")
			b.state(cds, "1", "+a@1")
			b.state(lds, "1")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +* held", "EDS +x", "LDS +*")
			b.state(cds, "2")
			b.state(eds, "1", "+x@1")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +*", "EDS +x held", "LDS +*")
		},
		"RES-8 members missing from a full-state type are removed, the same bytes are no change": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.expect(b.connect(0), "CDS +*")
			b.state(cds, "1", "+a@1", "+b@1")
			b.expect(c.told(), "CDS +a +b")
			b.state(cds, "2", "+a@1", "+c@1")
			if !c.rang() {
				b.Fatal("not woken")
			}
			b.expect(c.told(), "CDS +c -b")
			n := b.store.Session().Sequence()
			b.state(cds, "3", "+a@1", "+c@1")
			if b.store.Session().Sequence() != n {
				b.Fatal("the same state was a change")
			}
			b.state(cds, "4")
			b.expect(c.told(), "CDS -a -c")
		},
		"RES-8 a wildcard is synced by the first response, and an empty one says so at once": func(b *bed, c *peer) {
			c.sub(lds, "*")
			c.resume(lds, []string{"old@v"})
			b.connect(0)
			c.told()
			b.state(lds, "1")
			if !c.rang() {
				b.Fatal("not woken")
			}
			b.expect(c.told(), "LDS -old")
			if at := b.store.Session().Settle(time.Now()); !at.IsZero() {
				b.Fatalf("waits until %v", at)
			}
		},
		"RES-7 names received before are absent at once, others wait": func(b *bed, c *peer) {
			c.sub(lds, "a", "b")
			b.connect(0)
			b.state(lds, "1", "+a@1")
			b.expect(c.told(), "LDS +a")
			b.state(lds, "2")
			b.expect(c.told(), "LDS -a")
			b.state(lds, "3", "+a@2", "+b@1")
			b.expect(c.told(), "LDS +a +b")
		},
		"RES-8 of another type what is missing stays": func(b *bed, c *peer) {
			c.sub(eds, "a", "b")
			b.connect(0)
			b.state(eds, "1", "+a@1", "+b@1")
			c.told()
			b.state(eds, "2", "+a@2")
			b.expect(c.told(), "EDS +a")
			c.sub(rds, "*")
			b.expect(b.demand(0), "RDS +*")
			b.state(rds, "1", "+x@1", "+y@1")
			b.expect(c.told(), "RDS +x +y")
			b.state(rds, "2", "+x@2")
			b.settle()
			b.expect(c.told(), "RDS +x")
		},
		"RES-12 after a resume nothing is presented, and what is not mentioned stays": func(b *bed, c *peer) {
			c.sub(rds, "*")
			b.connect(0)
			b.state(rds, "1", "+x@1", "+y@1")
			b.settle()
			c.told()
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "RDS +* held")
			b.state(rds, "1", "+x@1")
			b.settle()
			b.expect(c.told())
		},
		"RES-8 after a resume a full-state type is what the server says": func(b *bed, c *peer) {
			c.sub(lds, "a", "b")
			b.connect(0)
			b.state(lds, "1", "+a@1", "+b@1")
			c.told()
			b.store.Session().Lost(streamOf(0))
			b.connect(0)
			b.state(lds, "1", "+b@other")
			b.expect(c.told(), "LDS +b -a")
		},
		"SUB-13 what nobody asked for is counted and left out": func(b *bed, c *peer) {
			c.sub(eds, "a")
			b.connect(0)
			b.state(eds, "1", "+a@1", "+b@1")
			b.expect(c.told(), "EDS +a")
			b.state(rds, "1", "+r@1")
			if b.seen.unsolicited != 2 || b.cache.Resources() != 1 {
				b.Fatalf("%d unsolicited, %d cached", b.seen.unsolicited, b.cache.Resources())
			}
		},
		"ACK-6 a name that comes twice, a wrong type, a bad name": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.state(cds, "1", "+a@1", "+b@1")
			c.told()
			wrong := stateOf(cds, "2", "+a@2")
			wrong.TypeURL = lds
			for want, r := range map[string]*wire.Response{
				`resource "a" occurs twice`:                   stateOf(cds, "2", "+a@2", "+a@2"),
				`is of type "` + cds + `" in a response for `: wrong,
				`xdstp://x/`: stateOf(cds, "2", "+a@1", "+xdstp://x/%zz@1"),
			} {
				if err := b.applyState(r); err == nil || !strings.Contains(err.Error(), want) {
					b.Errorf("error %v, want %q", err, want)
				}
			}
			b.expect(c.told())
			if got := b.table(cds, cache.WholeType).VersionInfo(); got != "1" {
				b.Errorf("version_info %q of a rejected response", got)
			}
		},
		"RES-13 TTL-3 a heartbeat keeps what it names, and alone is no list": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.state(cds, "1", "+a@1", "+b@1")
			c.told()
			b.state(cds, "1", "~a")
			b.expect(c.told())
			b.state(cds, "2", "~a", "+c@1", "~unknown")
			b.expect(c.told(), "CDS +c -b")
		},
		"ERR-1 a resource with an error is not missing": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.state(cds, "1", "+a@1", "+b@1")
			c.told()
			b.state(cds, "2", "+a@1", "!b")
			b.expect(c.told(), "CDS !b")
		},
		"GLOB-7 globs are settled by a quiet time, members go with a full-state response": func(b *bed, c *peer) {
			c.sub(cds, globG)
			c.resume(cds, []string{nameG2 + "@v"})
			b.expect(b.connect(0), "CDS +"+globG)
			b.state(cds, "1", "+"+nameG1+"@1")
			b.expect(c.told(), "CDS +"+nameG1)
			b.settle()
			b.expect(c.told(), "CDS -"+nameG2)
			b.state(cds, "2")
			b.expect(c.told(), "CDS -"+nameG1)
		},
		"GLOB-7 RES-14 part of a list, from another stream, answers no glob": func(b *bed, c *peer) {
			c.sub(cds, globG, "a")
			c.resume(cds, []string{nameG2 + "@v"})
			b.connect(0)
			r := stateOf(cds, "7", "+a@1")
			r.Partial, r.Beside = true, true
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "CDS +a")
			b.settle()
			b.expect(c.told())
			b.state(cds, "1", "+"+nameG1+"@1", "+a@1")
			b.settle()
			b.expect(c.told(), "CDS +"+nameG1+" -"+nameG2)
		},
		"GLOB-6 GLOB-7 a named member outlives the glob": func(b *bed, c *peer) {
			c.sub(cds, globG)
			b.connect(0)
			b.state(cds, "1", "+"+nameG1+"@1", "+"+nameG2+"@1")
			b.settle()
			c.told()
			c.sub(cds, nameG1)
			c.unsub(cds, globG)
			c.told()
			b.letGo()
			b.expect(b.demand(0), "CDS +"+nameG1, "CDS -"+globG)
			b.state(cds, "2", "+"+nameG1+"@1")
			b.expect(c.told())
			b.state(cds, "3")
			b.expect(c.told(), "CDS -"+nameG1)
		},
		"a complete response tells of names, globs and types that nothing else does": func(b *bed, c *peer) {
			c.sub(eds, "a", "b", globG)
			c.resume(eds, []string{nameG2 + "@v"})
			b.connect(0)
			r := stateOf(eds, "1", "+a@1")
			r.Complete = true
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "EDS +a -b -"+nameG2)
			r = stateOf(eds, "2", "+b@1")
			r.Complete = true
			if err := b.applyState(r); err != nil {
				b.Fatal(err)
			}
			b.expect(c.told(), "EDS +b -a")
			r = stateOf(eds, "3", "+b@1", "+not-asked-for@1")
			r.Complete = true
			if err := b.applyState(r); err != nil || b.seen.unsolicited != 0 || b.cache.Resources() != 1 {
				b.Errorf("error %v, %d unsolicited, %d cached", err, b.seen.unsolicited, b.cache.Resources())
			}
		},
		"SUB-11 the wildcard of the state of the world is wanted once on a stream": func(b *bed, c *peer) {
			c.sub(cds, "*")
			b.connect(0)
			b.state(cds, "1", "+a@1")
			c.unsub(cds, "*")
			b.letGo()
			b.expect(b.demand(0), "CDS -*")
			<-time.After(time.Hour)
			c.sub(cds, "*")
			b.expect(b.demand(0), "begin anew")
			b.store.Session().Lost(streamOf(0))
			b.expect(b.connect(0), "CDS +*")
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newStateBed(t)
				f(b, b.join())
			})
		})
	}
}

// table finds one that is there.
func (b *bed) table(typeURL string, k cache.Kind) *cache.Table {
	b.Helper()
	t := b.store.FindTable(typeURL, k)
	if t == nil {
		b.Fatalf("no table of %s", typeURL)
	}
	return t
}

// The server's version is kept to the letter, and one that stood for two contents
// is not trusted (ACK-4).
func TestACK4VersionInfo(t *testing.T) {
	b, _ := newStateBed(t).subscribed(cds, "*")
	tab := b.table(cds, cache.WholeType)
	if tab.VersionInfo() != "" || tab.VersionTrusted() {
		t.Error("a version before the first response")
	}
	step := func(version string, trusted bool, words ...string) {
		t.Helper()
		b.state(cds, version, words...)
		if got := tab.VersionTrusted(); got != trusted || tab.VersionInfo() != version {
			t.Errorf("%q %v: shown as %q, trusted %t", version, words, tab.VersionInfo(), got)
		}
	}
	step("1", true, "+a@1")
	step("1", true, "+a@1")
	step("2", true, "+a@2", "+b@2")
	step("3", true, "+a@1")
	step("2", true, "+b@2", "+a@2")
	step("1", false, "+a@other") // the server was restarted and counts from one
	step("2", true, "+a@2", "+b@2")
	step("1", false, "+a@1")
	step("", false, "+a@1")
	for _, n := range []string{"4", "5", "6", "7", "8", "9", "10", "11"} {
		step(n, true, "+a@"+n)
	}
	step("1", true, "+a@1") // too long ago
}

// A heartbeat among the resources of a list says that what is served under the
// resource's aliases is there too.
func TestApplyState_HeartbeatOfAlias_TTL3_RES8_RES10(t *testing.T) {
	b, c := newStateBed(t).subscribed(cds, "vh", "x", "other")
	say := func(words ...string) {
		t.Helper()
		if err := b.applyState(stateTTL(cds, "v1", words...)); err != nil {
			t.Fatal(err)
		}
	}
	say("+vh@1|x", "+other@1")
	c.told()
	say("=vh@1", "+other@2")
	b.expect(c.told(), "CDS +other")
}

// A response that has nothing but errors which leave their names open is no answer to a
// collection: what clients present of it is not gone (RES-2, RES-11).
func TestRES2_RES11_delayAnswersNoCollection(t *testing.T) {
	const dir = "xdstp://a/envoy.config.endpoint.v3.ClusterLoadAssignment/e/"
	for name, state := range map[string]bool{"incremental": false, "state of the world": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				if state {
					b = newStateBed(t)
				}
				p, named := b.join(), b.join()
				p.presents(eds, dir+"1@1", dir+"*")
				named.sub(eds, dir+"0")
				b.connect(0)
				if state {
					b.state(eds, "1", "!"+dir+"0")
				} else {
					b.respond(eds, "!"+dir+"0")
				}
				<-time.After(2 * quiet)
				b.store.Session().Settle(time.Now())
				b.expect(p.collect(), "EDS !"+dir+"0")
			})
		})
	}
}
