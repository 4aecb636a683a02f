package cache

import (
	"testing"
)

// counting is an Observer that counts what came unasked.
type counting struct {
	silent

	unsolicited int
}

func (c *counting) Unsolicited(_ string, n int) { c.unsolicited += n }

// An answer that aliases stand for nothing is for names that the server is asked for, or that clients want. Any other came
// unasked (RES-16, SUB-13).
func TestBareAliases_RES16_SUB13(t *testing.T) {
	for name, tc := range map[string]struct {
		begin       func(k *kept, l *listener)
		answer      string
		absent      bool // a
		unsolicited int
	}{
		"a client waits":             {func(_ *kept, l *listener) { l.watch("a") }, "=r@v|a", true, 0},
		"nobody asks":                {func(*kept, *listener) {}, "=r@v|a", false, 1},
		"a client left":              {func(k *kept, l *listener) { l.watch("a"); k.demand(WholeType); l.unwatch("a") }, "=r@v|a", true, 0},
		"one of several":             {func(_ *kept, l *listener) { l.watch("a") }, "=r@v|b,a", true, 0},
		"one has a name that is bad": {func(_ *kept, l *listener) { l.watch("a") }, "=r@v|xdstp://%,a", true, 0},
	} {
		seen := new(counting)
		k := &kept{t, New(Limits{}, seen).Open(Source{})}
		l := k.listener(NeedsStream)
		l.watch("other")
		tc.begin(k, l)
		k.demand(WholeType)
		k.says(WholeType, tc.answer)
		e := k.store.FindTable(cds, ByName).Find("a")
		if absent := e != nil && e.state == Absent; absent != tc.absent || seen.unsolicited != tc.unsolicited {
			t.Errorf("%s: %v, %d came unasked", name, e, seen.unsolicited)
		}
	}
}

// An operator holds an answer that takes content from a client, and no other: the first answer to a question is no
// change (GATE-4, RES-16).
func TestBareAliasesHeld_GATE4_RES16(t *testing.T) {
	for _, tc := range []struct {
		answer string
		held   bool
	}{{"=r@v|a", true}, {"=r@v|unknown,a", true}, {"=r@v|xdstp://%,nobody,a", true}, {"=r@v|unknown", false}, {"=r@v|xdstp://%,nobody", false}} {
		k := newKept(t)
		l := k.listener(NeedsStream)
		l.watch("a")
		l.watch("unknown")
		k.demand(WholeType)
		k.says(WholeType, "+a@1")
		k.freeze()
		k.says(WholeType, tc.answer)
		table := k.store.FindTable(cds, ByName)
		if held := table.upstream.held.any(); held != tc.held || table.Find("a").state != Present {
			t.Errorf("%q is held: %t, and the client's is %v", tc.answer, held, table.Find("a").state)
		}
		if told := table.Find("unknown").state == Absent; told != (tc.answer == "=r@v|unknown") {
			t.Errorf("%q answers the question: %t", tc.answer, told)
		}
		k.store.Operator().Freeze(nil, nil)
		k.check()
		if gone := table.Find("a").state == Absent; gone != tc.held {
			t.Errorf("released, %q takes the content: %t", tc.answer, gone)
		}
	}
}
