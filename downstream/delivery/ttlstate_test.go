package delivery

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/cache/digest"
	"google.golang.org/protobuf/proto"
)

// timedState is the Form of a state-of-the-world client that can do ttl.
var timedState = Form{State: true, Wrapped: true, TTL: true}

// worlds is lists for what is wrapped: +name@version with ~ttl, and =name@version~ttl in
// responses that hold nothing but what the client has. All are whole: a client takes
// heartbeats alone for an empty list (TTL-1).
func (p *peer) worlds() []string {
	p.Helper()
	var said []string
	for {
		batches, more := collectStates([]*Place{p.c}, func(t string) bool { return p.busy[t] }, p.size, 8)
		for _, b := range batches {
			said = append(said, p.renderWorld(b))
		}
		p.check()
		if !more {
			return said
		}
	}
}

func (p *peer) renderWorld(b *Batch) string {
	p.Helper()
	var r discovery.DiscoveryResponse
	if err := proto.Unmarshal(b.Body.Finish(b.TypeURL, b.SystemVersion, "n").Bytes(), &r); err != nil {
		p.Fatal(err)
	}
	if b.SystemVersion == "" {
		p.Error("a response without version_info")
	}
	var words []string
	for _, x := range r.Resources {
		var res discovery.Resource
		if err := proto.Unmarshal(x.Value, &res); err != nil {
			p.Fatal(err)
		}
		if res.Resource == nil {
			p.Errorf("TTL-1: a heartbeat: %v", &res)
		}
		word := "+" + res.Name + "@" + res.Version
		if b.Renewal {
			word = "=" + word[1:]
		}
		if res.Ttl != nil {
			word += "~" + res.Ttl.AsDuration().String()
		}
		words = append(words, word)
	}
	slices.Sort(words)
	return strings.Join(append([]string{short[b.TypeURL]}, words...), " ")
}

// subscriptions are the ways to subscribe to a member, which is named beside them.
var subscriptions = map[string]string{"*": "a", globG: nameG1, "a": "a"}

// inState runs a test for each way to subscribe to a member "m" of a type.
func inState(t *testing.T, name, typeURL string, test func(b *stateBed)) {
	t.Helper()
	for sub, member := range subscriptions {
		t.Run(name+", subscribed as "+strings.ReplaceAll(sub, "/", "|"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := &stateBed{bed: newBed(t, cache.Limits{}), typeURL: typeURL, sub: sub, member: member}
				b.able, b.plain = b.joinAs(timedState), b.joinAs(wrappedForm)
				b.able.sub(typeURL, sub)
				b.plain.sub(typeURL, sub)
				b.connect(0)
				test(b)
			})
		})
	}
}

type stateBed struct {
	*bed

	able, plain          *peer
	typeURL, sub, member string
}

func (b *stateBed) says(words ...string) {
	b.Helper()
	for i, w := range words {
		words[i] = strings.Replace(w, "m@", b.member+"@", 1)
		if w == "-m" {
			words[i] = "-" + b.member
		}
	}
	b.bed.says(b.typeURL, words...)
}

// gets expects responses; each is written without its type, "" for an empty list.
func (b *stateBed) gets(p *peer, want ...string) {
	b.Helper()
	for i, w := range want {
		want[i] = strings.TrimSpace(short[b.typeURL] + " " + strings.ReplaceAll(w, "m@", b.member+"@"))
	}
	b.expect(p.worlds(), want...)
}

func TestStateTTL(t *testing.T) {
	for _, typeURL := range []string{cds, eds} {
		inState(t, "TTL-1 RES-13 the remaining ttl, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.gets(b.able, "+m@1~10s")
			b.gets(b.plain, "+m@1")
			<-time.After(4 * time.Second)
			late := b.joinAs(timedState)
			late.sub(typeURL, b.sub)
			b.gets(late, "+m@1~6s")
			b.says("+m@2~20s")
			b.gets(b.able, "+m@2~20s")
			b.gets(b.plain, "+m@2")
		})
		inState(t, "TTL-1 TTL-3 renewed with whole resources, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.gets(b.able, "+m@1~10s")
			b.gets(b.plain, "+m@1")
			b.able.rang()
			b.plain.rang()
			b.after(4 * time.Second)
			b.says("=m@1~20s")
			if !b.able.rang() || b.plain.rang() {
				b.Error("the wrong client was woken")
			}
			b.gets(b.able, "=m@1~20s")
			b.gets(b.able)
			b.gets(b.plain)
			b.says("=m@1~30s")
			b.says("+m@2~40s") // the content says its ttl
			b.gets(b.able, "+m@2~40s")
			b.after(20 * time.Second)
			b.says("=m@2~50s")
			b.able.busy[typeURL] = true
			b.gets(b.able) // it may reject what it has not acknowledged
			b.able.busy[typeURL] = false
			b.gets(b.able, "=m@2~50s")
			b.gets(b.able)
		})
		inState(t, "TTL-3 RES-4 who dropped the content gets it again, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.gets(b.able, "+m@1~10s")
			b.gets(b.plain, "+m@1")
			b.after(8 * time.Second)
			b.says("=m@1~10s")
			<-time.After(2 * time.Second)
			b.gets(b.able, "=m@1~8s")
			b.gets(b.able)
			b.gets(b.plain)
			b.says("=m@1~10s")
			b.gets(b.able) // too soon
			b.after(5 * time.Second)
			b.gets(b.able, "=m@1~5s")
			b.gets(b.able)
		})
		inState(t, "TTL-1 who would drop it before its time is renewed at once, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.after(10*time.Second - 200*time.Millisecond)
			b.gets(b.able, "+m@1~200ms")
			b.after(100 * time.Millisecond)
			b.says("=m@1~10s")
			b.gets(b.able, "=m@1~10s")
			b.says("=m@1~10s")
			b.gets(b.able)
		})
		inState(t, "TTL-3 RES-4 who is behind gets the content only, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.says("=m@1~20s")
			b.gets(b.able, "+m@1~20s")
			b.gets(b.able)
		})
		inState(t, "TTL-4 changed, removed, and given again, "+short[typeURL], typeURL, func(b *stateBed) {
			b.says("+m@1~10s")
			b.gets(b.able, "+m@1~10s")
			b.gets(b.plain, "+m@1")
			b.after(5 * time.Second)
			b.says("+m@1~30s")
			b.gets(b.able, "=m@1~30s")
			b.says("+m@1")
			b.gets(b.able, "+m@1")
			b.gets(b.able)
			b.after(time.Hour)
			b.says("+m@1~10s")
			b.gets(b.able, "=m@1~10s")
			b.gets(b.plain)
		})
	}
	inState(t, "TTL-2 RES-2 a list without what expired, for whom cannot do ttl", cds, func(b *stateBed) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(10 * time.Second)
		b.gets(b.plain, "")
		b.gets(b.able)
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
	})
	inState(t, "TTL-2 a list for whom knows older content or an older ttl only", cds, func(b *stateBed) {
		b.says("+m@1")
		b.gets(b.able, "+m@1")
		b.says("+m@2~10s")
		b.after(10 * time.Second)
		b.gets(b.able, "")
		b.gets(b.able)
		b.says("+m@3~1h")
		b.gets(b.able, "+m@3~1h0m0s")
		b.says("=m@3~10s")
		b.after(10 * time.Second)
		b.gets(b.able, "")
		b.gets(b.able)
	})
	inState(t, "TTL-2 RES-3 there is no word for it where responses need not be complete", eds, func(b *stateBed) {
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
		b.after(10 * time.Second)
		b.gets(b.able)
		b.gets(b.plain)
		b.says("+m@1~10s")
		b.gets(b.able, "+m@1~10s")
		b.gets(b.plain, "+m@1")
	})
}

func TestStateTTLOfLists(t *testing.T) {
	run := func(name string, test func(b *bed, c, rest *peer)) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c, plain := b.joinAs(timedState), b.joinAs(wrappedForm)
				for _, p := range []*peer{c, plain} {
					p.sub(cds, "*")
					p.sub(rds, "r")
				}
				b.connect(0)
				b.says(rds, "+r@1")
				test(b, c, plain)
			})
		})
	}
	run("TTL-1 without any ttl the list is shared", func(b *bed, c, plain *peer) {
		body := func() bool {
			return b.upkeep(cds, cache.WholeType).Lists > 0
		}
		b.says(cds, "+a@1", "+b@1")
		b.expect(c.worlds(), "CDS +a@1 +b@1", "RDS +r@1")
		if !body() {
			b.Error("the list was built for one client")
		}
		b.says(cds, "+a@2~10s")
		b.expect(c.worlds(), "CDS +a@2~10s +b@1")
		if body() {
			b.Error("a list with ttls was shared")
		}
		b.expect(plain.worlds(), "CDS +a@2 +b@1", "RDS +r@1")
	})
	run("TTL-2 ADS-1 what a client dropped by itself is not listed again", func(b *bed, c, plain *peer) {
		b.says(cds, "+gone@1", "+a@1~10s", "+b@1")
		c.worlds()
		plain.worlds()
		c.busy[rds], plain.busy[rds] = true, true
		b.says(cds, "-gone")
		b.after(10 * time.Second)
		b.expect(c.worlds())
		b.says(cds, "+b@2")
		b.expect(c.worlds(), "CDS +b@2 +gone@1")
		b.expect(plain.worlds(), "CDS +a@1 +b@2 +gone@1")
		c.busy[rds], plain.busy[rds] = false, false
		b.expect(c.worlds(), "CDS +b@2")
		b.expect(plain.worlds(), "CDS +b@2")
		b.expect(c.worlds())
	})
	run("TTL-2 ADS-1 what it did not know of is, until it may go", func(b *bed, c, _ *peer) {
		b.says(cds, "+a@1", "+b@1")
		c.worlds()
		c.busy[cds], c.busy[rds] = true, true
		b.says(cds, "+a@2~10s")
		b.after(10 * time.Second)
		b.says(cds, "+b@2")
		c.busy[cds] = false
		b.expect(c.worlds(), "CDS +a@2 +b@2")
		b.says(cds, "+b@3")
		b.expect(c.worlds(), "CDS +a@2 +b@3")
		c.busy[rds] = false
		b.expect(c.worlds(), "CDS +b@3")
		b.expect(c.worlds())
	})
	run("TTL-2 ACK-5 who shows the current version is sent the ttls all the same", func(b *bed, c, _ *peer) {
		b.says(cds, "+a@1~1h")
		b.after(2 * quiet)
		c.worlds()
		version := c.c.find(cds).version().with(digest.Sum{})
		late, plain := b.joinAs(timedState), b.joinAs(wrappedForm)
		late.show(cds, version, "*")
		plain.show(cds, version, "*")
		b.expect(late.worlds(), "CDS +a@1~59m30s")
		b.expect(plain.worlds())
	})
	run("TTL-3 RES-9 many that are renewed are split", func(b *bed, c, _ *peer) {
		c.sub(eds, "*")
		b.says(eds, many("+", "m", 0, 500, "@1~10s")...)
		c.worlds()
		b.says(eds, many("=", "m", 0, 500, "@1~10s")...)
		c.size = 1500
		said := strings.Fields(strings.Join(c.worlds(), " "))
		said = slices.DeleteFunc(said, func(w string) bool { return w == "EDS" })
		b.expect(said, many("=", "m", 0, 500, "@1~10s")...)
	})
	run("TTL-3 renewals come before what is due, and hold nothing back", func(b *bed, c, _ *peer) {
		c.sub(eds, "x", "y")
		b.says(eds, "+x@1~10s", "+y@1")
		c.worlds()
		b.says(eds, "=x@1~20s", "+y@2")
		b.expect(c.worlds(), "EDS =x@1~20s", "EDS +y@2")
		b.after(10 * time.Second)
		b.says(eds, "=x@1~30s")
		b.says(rds, "+r@2")
		b.expect(c.worlds(), "EDS =x@1~30s", "RDS +r@2")
	})
	run("TTL-1 RES-2 several stores: one list of all", func(b *bed, c, _ *peer) {
		o := &bed{TB: b.TB, cache: b.cache, seen: b.seen, store: b.cache.Open(b.source)}
		p := o.joinAs(timedState)
		p.sub(cds, "n")
		o.connect(0)
		b.says(cds, "+a@1~10s")
		o.says(cds, "+n@1~20s")
		all := func() (said []string) {
			batches, _ := collectStates([]*Place{c.c, p.c}, func(string) bool { return false }, 1<<20, 8)
			for _, batch := range batches {
				said = append(said, c.renderWorld(batch))
			}
			return said
		}
		b.expect(all(), "CDS +a@1~10s +n@1~20s", "RDS +r@1")
		b.after(4 * time.Second)
		b.says(cds, "=a@1~30s")
		o.says(cds, "=n@1~40s")
		b.expect(all(), "CDS =a@1~30s =n@1~40s")
		b.expect(all())
	})
	run("TTL-3 RES-10 an alias and its resource are renewed once", func(b *bed, c, _ *peer) {
		c.sub(eds, "vh", "x")
		b.says(eds, "+vh@1~10s|x")
		b.expect(c.worlds(), "EDS +vh@1~10s", "RDS +r@1")
		b.says(eds, "=vh@1~20s")
		b.expect(c.worlds(), "EDS =vh@1~20s")
	})
}

// A server that renews often does not have everything sent each time, and nothing runs out.
func TestStateTTLPace_TTL1(t *testing.T) {
	for name, s := range map[string]struct {
		typeURL string
		subs    []string
		lists   bool
	}{
		"lists":   {cds, []string{"*"}, true},
		"names":   {eds, []string{"a", "b"}, false},
		"members": {eds, []string{"*"}, false},
	} {
		t.Run("TTL-1 at most once per third of the shortest ttl, "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cache.Limits{})
				c := b.joinAs(timedState)
				c.sub(s.typeURL, s.subs...)
				b.connect(0)
				b.says(s.typeURL, "+a@1~30s", "+b@1~9s")
				first := c.worlds()
				b.expect(first, short[s.typeURL]+" +a@1~30s +b@1~9s")
				const seconds = 90
				renewed, last := 0, time.Now()
				for range seconds {
					b.after(time.Second)
					b.says(s.typeURL, "=a@1~30s", "=b@1~9s")
					said := c.worlds()
					switch {
					case len(said) == 0:
						continue
					case len(said) > 1:
						t.Errorf("%d responses at once: %q", len(said), said)
					}
					renewed++
					if since := time.Since(last); since < 3*time.Second && renewed > 1 {
						t.Errorf("renewed %v after the last time", since)
					}
					last = time.Now()
					if want := short[s.typeURL] + " =a@1~30s =b@1~9s"; said[0] != want {
						t.Errorf("renewed with %q, want %q", said[0], want)
					}
				}
				if renewed < seconds/4 || renewed > seconds/3+1 {
					t.Errorf("renewed %d times in %d seconds", renewed, seconds)
				}
			})
		})
	}
}

// A pass that leaves a renewal for its time says when that is (TTL-1).
func TestStateTTLOutlook_TTL1(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(timedState)
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1~30s")
		c.worlds()
		b.says(cds, "=a@1~30s")
		pace := paceOf(func(string) bool { return false }, 1<<20, 8)
		batches, left, err := c.s.Collect(pace)
		if err != nil || len(batches) != 0 || time.Until(left.Next) != 10*time.Second {
			t.Errorf("%d responses, then %v, %v; want the renewal in 10s", len(batches), time.Until(left.Next), err)
		}
		b.after(10 * time.Second)
		if batches, _, _ = c.s.Collect(pace); len(batches) != 1 || !batches[0].Renewal {
			t.Errorf("%d responses, want the renewal", len(batches))
		}
	})
}
