package delivery

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/xds"
)

// pass lets time pass, and collects when the last collect said so. It tells after how long each response was sent.
func (p *peer) pass(d time.Duration) (said []string) {
	p.Helper()
	from := time.Now()
	for end := from.Add(d); ; {
		batches, left, err := p.s.Collect(paceOf(func(t string) bool { return p.busy[t] }, p.size, 8))
		if err != nil {
			p.Fatal(err)
		}
		p.check()
		for _, b := range batches {
			render := p.render
			if p.s.Form().State {
				render = func(b *Batch) string { return renderState(p, b) }
			}
			said = append(said, fmt.Sprintf("%v %s", time.Since(from), render(b)))
			p.took = []*Batch{b}
		}
		switch next := left.Next; {
		case left.More:
		case len(batches) > 0, next.IsZero(), next.After(end):
			<-time.After(time.Until(end))
			return said
		default:
			<-time.After(time.Until(next))
		}
	}
}

// rejecter is a client that has rejected the one resource that there is.
func rejecter(t *testing.T, form Form, typeURL string, subs ...string) (*bed, *peer) {
	t.Helper()
	b := newBed(t, cache.Limits{})
	c := b.joinAs(form)
	c.sub(typeURL, subs...)
	b.connect(0)
	b.says(typeURL, "+a@1")
	b.settle()
	if got := c.pass(0); len(got) != 1 {
		t.Fatalf("the client is sent %q, want one response", got)
	}
	c.rejects(0)
	return b, c
}

// clients are the forms in which a client may have rejected a resource alone, or a list.
var clients = []struct {
	name string
	form Form
	url  string
	subs []string
	sent string // what the client is sent again
}{
	{"a member", Form{}, lds, []string{"*"}, "LDS +a@1"},
	{"a name", Form{}, eds, []string{"a"}, "EDS +a@1"},
	{"a list by *", Form{State: true}, lds, []string{"*"}, "LDS a1"},
	{"a list by names", Form{State: true}, cds, []string{"a"}, "CDS a1"},
	{"a name in the state of the world", Form{State: true}, rds, []string{"a"}, "RDS a1"},
}

// eachClient plays something with each of them.
func eachClient(t *testing.T, play func(t *testing.T, b *bed, c *peer, typeURL, sent string)) {
	t.Helper()
	for _, tc := range clients {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := rejecter(t, tc.form, tc.url, tc.subs...)
				play(t, b, c, tc.url, tc.sent)
			})
		})
	}
}

// What a client rejected is offered again when the server sent it again: 100 ms after the rejection, and twice as long
// after each further one, up to 30 s. Without such a reason there is silence.
func TestOfferedAgain_ACK3(t *testing.T) {
	eachClient(t, func(_ *testing.T, b *bed, c *peer, typeURL, sent string) {
		b.expect(c.pass(time.Hour))
		b.says(typeURL, "+a@1")
		c.woken()
		b.expect(c.pass(0), "0s "+sent) // long after
		c.rejects(0)
		for _, wait := range []time.Duration{
			200 * time.Millisecond, 400 * time.Millisecond, 800 * time.Millisecond, 1600 * time.Millisecond, 3200 * time.Millisecond,
			6400 * time.Millisecond, 12800 * time.Millisecond, 25600 * time.Millisecond, 30 * time.Second, 30 * time.Second,
		} {
			b.expect(c.pass(0))
			b.says(typeURL, "+a@1")
			b.says(typeURL, "+a@1")
			b.expect(c.pass(time.Minute), fmt.Sprintf("%v %s", wait, sent))
			if !c.took[0].Offered() {
				b.Error("it does not count as offered again")
			}
			c.rejects(0)
		}
		b.expect(c.pass(time.Hour))
	})
}

// Content that changes is sent at once, and its clock begins anew.
func TestOfferedAgainAfterChange_ACK3(t *testing.T) {
	eachClient(t, func(_ *testing.T, b *bed, c *peer, typeURL, sent string) {
		for range 5 {
			b.says(typeURL, "+a@1")
			c.pass(time.Minute)
			c.rejects(0)
		}
		b.says(typeURL, "+a@2")
		if got := c.pass(0); len(got) != 1 || c.took[0].Offered() {
			b.Fatalf("it is sent %q", got)
		}
		c.rejects(0)
		b.says(typeURL, "+a@1")
		b.expect(c.pass(0), "0s "+sent)
		c.rejects(0)
		b.says(typeURL, "+a@1")
		b.expect(c.pass(time.Minute), "100ms "+sent)
	})
}

// What is offered waits for the client's answer: another reason does not have it sent twice (STR-7).
func TestOfferedOnceUntilAnswered_ACK3_STR7(t *testing.T) {
	eachClient(t, func(_ *testing.T, b *bed, c *peer, typeURL, sent string) {
		b.says(typeURL, "+a@1")
		b.expect(c.pass(time.Minute), "100ms "+sent)
		offered := c.took[0]
		c.s.Offer()
		b.expect(c.pass(time.Minute))
		c.s.Accepted(c.c, offered)
		b.expect(c.pass(time.Hour))
	})
}

// The same where one of the reasons is that a removal was accepted: the client answers in order, so that what is offered
// and not answered was offered behind the removal.
func TestTriedOnceUntilAnswered_ACK3_STR7(t *testing.T) {
	for _, tc := range clients[:2] {
		for name, order := range map[string]func(b *bed, c *peer, remove func()){
			"the removal first": func(b *bed, c *peer, remove func()) {
				remove()
				b.says(tc.url, "+a@1")
				c.s.Offer()
			},
			"the removal last": func(b *bed, c *peer, remove func()) {
				b.says(tc.url, "+a@1")
				b.expect(c.pass(time.Minute), "100ms "+tc.sent)
				offered := c.took
				remove()
				c.took = offered
			},
		} {
			t.Run(tc.name+", "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b, c := rejecter(t, tc.form, tc.url, tc.subs...)
					if tc.subs[0] != "*" {
						c.sub(tc.url, "gone")
						b.demand(0)
					}
					b.says(tc.url, "+gone@1")
					c.pass(0)
					c.s.Accepted(c.c, c.took[0])
					sent := 0
					order(b, c, func() {
						b.says(tc.url, "-gone")
						c.pass(0)
						c.s.Accepted(c.c, c.took[0])
						for _, said := range c.pass(0) {
							sent++
							b.expect([]string{said}, "0s "+tc.sent)
						}
					})
					if want := map[bool]int{true: 1}[name == "the removal first"]; sent != want {
						t.Errorf("it was tried %d times when the removal was accepted, want %d", sent, want)
					}
					b.expect(c.pass(time.Minute))
					c.s.Accepted(c.c, c.took[0])
					b.expect(c.pass(time.Hour))
				})
			})
		}
	}
}

// What the client accepted is not offered again, nor what the server sent again with a ttl only to renew that.
func TestNotOfferedAgain_ACK3(t *testing.T) {
	eachClient(t, func(_ *testing.T, b *bed, c *peer, typeURL, sent string) {
		b.says(typeURL, "+a@1~1h")
		b.expect(c.pass(time.Minute))
		b.says(typeURL, "+a@1")
		b.expect(c.pass(time.Minute), "0s "+sent)
		c.s.Accepted(c.c, c.took[0])
		if c.s.Rejects(typeURL) {
			b.Error("the client rejects it still")
		}
		b.says(typeURL, "+a@1")
		b.expect(c.pass(time.Hour))
		if again := c.c.find(typeURL).again; again != nil && (len(again.alone) > 0 || again.list != nil) {
			b.Error("a clock is left of what was accepted")
		}
	})
}

// A client that accepts something that others refer to, and that it did not hold, is offered again what it rejected.
func TestOfferedAgainForWantOf_ACK3(t *testing.T) {
	eachClient(t, func(t *testing.T, b *bed, c *peer, _, sent string) {
		t.Helper()
		accept := func(want bool) {
			t.Helper()
			if got := c.s.Accepted(c.c, c.took[0]); got != want {
				t.Errorf("something is due after the client accepted it: %t, want %t", got, want)
			}
		}
		other := xds.SecretType
		c.sub(other, "new", "none")
		b.demand(0)
		b.says(other, "+new@1")
		if got := c.pass(0); len(got) != 1 {
			t.Fatalf("the client is sent %q", got)
		}
		accept(true)
		b.expect(c.pass(time.Minute), "100ms "+sent)
		c.rejects(0)
		b.says(other, "+new@2")
		c.pass(0)
		accept(false) // it held the secret
		b.expect(c.pass(time.Minute))
		b.says(other, "+none@1")
		c.pass(0)
		c.rejects(0)
		b.expect(c.pass(time.Minute)) // it does not have the secret
	})
}

// The same content has one clock: by "*" and by name, under another version, and in whatever response it comes.
func TestOneClock_ACK3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "a")
		b.connect(1)
		b.says(eds, "+a@1")
		b.expect(c.pass(0), "0s EDS +a@1") // stands in for the name
		c.rejects(0)
		b.saysOn(1, eds, "+a@1")
		b.expect(c.pass(time.Minute), "100ms EDS +a@1")
		c.rejects(0)
		b.says(eds, "+a@1")
		b.saysOn(1, eds, "+a@1")
		b.expect(c.pass(time.Minute), "200ms EDS +a@1")
		c.rejects(0)

		b.saysOn(1, eds, "+a@2:1")
		b.expect(c.pass(time.Minute), "400ms EDS +a@2")
		c.rejects(0)
		b.expect(c.pass(time.Hour))
	})
}

// A client that asks for the content by itself is sent it at once.
func TestAskedForAgain_ACK3_SUB6(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range clients[:2] {
			b, c := rejecter(t, tc.form, tc.url, tc.subs...)
			c.sub(tc.url, tc.subs...)
			b.expect(c.pass(0), "0s "+tc.sent)
		}
	})
}

// What the client accepts then it does not reject any more.
func TestAcceptedWhenAskedForAgain_ACK3(t *testing.T) {
	for _, tc := range clients[:2] {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := rejecter(t, tc.form, tc.url, tc.subs...)
				other := b.joinAs(tc.form)
				other.sub(tc.url, tc.subs...)
				b.expect(other.pass(0), "0s "+tc.sent)
				other.s.Accepted(other.c, other.took[0]) // it is no suspect any more
				c.sub(tc.url, tc.subs...)
				b.expect(c.pass(0), "0s "+tc.sent)
				c.s.Accepted(c.c, c.took[0])
				if c.s.Rejects(tc.url) {
					t.Error("the client rejects it still")
				}
				b.says(tc.url, "+a@1")
				b.expect(c.pass(time.Minute))
			})
		})
	}
}

// A client that connects again begins anew: it is sent the content at once, and its clock begins with the first rejection.
func TestOfferedAfterReconnect_ACK3(t *testing.T) {
	for _, tc := range clients {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(*testing.T) {
				b, c := rejecter(t, tc.form, tc.url, tc.subs...)
				for range 5 {
					b.says(tc.url, "+a@1")
					c.pass(time.Minute)
					c.rejects(0)
				}
				c.leave()
				c.rang()
				b.says(tc.url, "+a@1")
				if c.rang() {
					b.Error("a client that has left is rung")
				}
				c = b.joinAs(tc.form)
				c.sub(tc.url, tc.subs...)
				b.expect(c.pass(0), "0s "+tc.sent)
				c.rejects(0)
				b.says(tc.url, "+a@1")
				b.expect(c.pass(time.Minute), "100ms "+tc.sent)
			})
		})
	}
}

// A client that rejects a list has the others in a list that changed at once, whatever the clock of the last one says.
func TestListOfferedAgainWithOthers_ACK3(t *testing.T) {
	synctest.Test(t, func(*testing.T) {
		b, c := rejecter(t, Form{State: true}, lds, "*")
		for i := range 5 {
			b.says(lds, "+a@1", fmt.Sprintf("+b@%d", i))
			b.expect(c.pass(0), fmt.Sprintf("0s LDS a1 b%d", i))
			c.rejects(0)
		}
		b.says(lds, "+b@4")
		b.expect(c.pass(time.Minute), "100ms LDS a1 b4")
	})
}

// A client that rejects nothing is not rung when the server sends again what another one rejected.
func TestOthersAreLeftAlone_ACK3(t *testing.T) {
	eachClient(t, func(_ *testing.T, b *bed, c *peer, typeURL, sent string) {
		other := b.joinAs(c.s.Form())
		other.sub(typeURL, "a")
		b.demand(0)
		b.demand(1)
		other.pass(0)
		other.rang()
		b.says(typeURL, "+a@1")
		if other.rang() {
			b.Error("a client is rung that rejected nothing")
		}
		b.expect(c.pass(time.Minute), "100ms "+sent)
	})
}

// A rejection of content that came as a member and by a name waits nowhere once the client has accepted it, or left.
func TestOneClockEnds_ACK3(t *testing.T) {
	for name, end := range map[string]func(c *peer){
		"accepted": func(c *peer) { c.s.Accepted(c.c, c.took[0]) },
		"left":     func(c *peer) { c.rejects(0); c.leave() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, c := newBed(t, cache.Limits{}).subscribed(eds, "*", "a")
				b.connect(1)
				b.says(eds, "+a@1")
				b.expect(c.pass(0), "0s EDS +a@1") // the member, which stands in for the name
				c.rejects(0)
				b.saysOn(1, eds, "+a@1")
				b.expect(c.pass(time.Minute), "100ms EDS +a@1") // the name
				end(c)
				c.rang()
				b.says(eds, "+a@1")
				if c.rang() {
					t.Error("the client is rung for what it does not reject any more")
				}
			})
		})
	}
}
