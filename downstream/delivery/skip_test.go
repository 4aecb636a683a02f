package delivery

import (
	"testing"

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
