package delivery

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
)

// changes lists what changed since a time, as "type name old>new".
func (b *bed) changes(since time.Time) (all []string, from time.Time) {
	past, from := b.store.Operator().Changes(since)
	for _, c := range past {
		line := c.TypeURL[strings.LastIndexByte(c.TypeURL, '.')+1:] + " " + c.Name + " "
		if c.Before != nil {
			line += c.Before.Shown()
		}
		line += ">"
		if c.After != nil {
			line += c.After.Shown()
		}
		all = append(all, line)
	}
	return all, from
}

func TestChanges_GATE4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		b := newBed(t, cache.Limits{Generations: 2})
		c := b.join()
		c.sub(cds, "*")
		b.connect(0)
		b.says(cds, "+a@1", "+b@1")
		b.settle()
		var at []time.Time
		step := func(words ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			at = append(at, time.Now())
			b.says(cds, words...)
		}
		want := func(since time.Time, complete bool, want ...string) {
			t.Helper()
			got, from := b.changes(since)
			if fmt.Sprint(got) != fmt.Sprint(want) || from.IsZero() != complete {
				t.Errorf("got %q since %v, want %q", got, from, want)
			}
		}
		want(start, true)
		step("+a@2")
		step("-b", "+c@1")
		want(at[1], true, "Cluster b 1>", "Cluster c >1")
		want(start, true, "Cluster b 1>", "Cluster c >1", "Cluster a 1>2")
		step("+a@3")
		want(start, false, "Cluster a 2>3", "Cluster b 1>", "Cluster c >1")
		want(at[1], true, "Cluster a 2>3", "Cluster b 1>", "Cluster c >1")
		step("+a@4")
		b.says(cds, "+a@3") // in the same burst
		want(at[3], true)
	})
	t.Run("nothing is remembered", func(t *testing.T) {
		b := newBed(t, cache.Limits{})
		if got, from := b.changes(time.Time{}); len(got) > 0 || from.IsZero() {
			t.Errorf("got %q since %v", got, from)
		}
	})
}
