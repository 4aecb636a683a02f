package delivery

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// In the state of the world "*" answers for a name that has ended with what it has. That it has nothing cannot be said
// (SUB-8, RES-3).
func TestStateAnswers_SUB8_RES3(t *testing.T) {
	b := newBed(t, cache.Limits{})
	c := b.joinAs(bareForm)
	c.sub(eds, "a", "b", "*")
	b.connect(0)
	b.connect(1)
	b.says(eds, "+a@name", "+b@name")
	b.saysOn(1, eds, "+a@all", "+c@all")
	b.settle()
	c.lists()
	c.unsub(eds, "a", "b")
	b.expect(c.lists(), "EDS aall")
	b.expect(c.lists())
	if w := c.c.find(eds); len(w.answers) > 0 || c.s.Held() {
		t.Errorf("%v is left to be answered", w.answers)
	}
}

// A client that subscribes to all of a type waits for a response, though it has nothing. Of a glob nothing is said (SUB-1).
func TestStateEmpty_SUB1_RES3(t *testing.T) {
	for spelling, want := range map[string][]string{"*": {"EDS"}, globG: nil} {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(bareForm)
		c.sub(eds, spelling)
		b.connect(0)
		b.expect(c.lists())
		if f := c.c.find(eds).subs; f.hasFollower(func(f *follower) bool { return f.answered }) {
			t.Errorf("%s is answered before the server says anything", spelling)
		}
		if spelling == "*" {
			b.says(eds)
		} else {
			b.says(eds, "-"+globG)
		}
		b.settle()
		b.expect(c.lists(), want...)
		b.expect(c.lists())
		if c.s.Held() {
			t.Errorf("something is left of %s", spelling)
		}
	}
}

// A member that a client drops by itself is no reason for a list: it has what a glob tells under the same name (TTL-2, STR-7).
func TestStateDropsByItself_TTL2_STR7(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		c := b.joinAs(timedState)
		c.sub(cds, "*", globG)
		b.connect(0)
		b.connect(1)
		b.says(cds, "+"+nameG1+"@1~1m", "+b@1")
		b.saysOn(1, cds, "+"+nameG1+"@1")
		b.settle()
		b.expect(c.worlds(), "CDS +b@1 +"+nameG1+"@1")
		b.after(time.Hour)
		b.expect(c.worlds())
	})
}
