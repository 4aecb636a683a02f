package delivery

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/ack"
)

// What a control plane's ACK waits for (ACK-7): content that goes to somebody.
func TestHeard_ACK7(t *testing.T) {
	for _, s := range []struct {
		name string
		run  func(b *bed, heard func(want bool))
	}{
		{"ACK-7 somebody follows, or names it", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(cds, "*")
			p.sub(eds, "x")
			b.connect(0)
			b.says(cds, "+a@1")
			heard(true)
			b.says(eds, "+x@1")
			heard(true)
		}},
		{"ACK-7 nothing that is new", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(cds, "+a@1", "+b@1")
			heard(false)
			b.says(cds, "+a@1", "+b@2")
			heard(true)
		}},
		{"ACK-7 removals only", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(cds, "*")
			b.connect(0)
			b.says(cds, "+a@1", "+b@1")
			b.says(cds, "-a")
			heard(false)
			b.says(cds, "+c@1", "-b")
			heard(true)
		}},
		{"ACK-7 nobody who subscribes is left", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(eds, "x")
			b.connect(0)
			p.c.Leave()
			b.says(eds, "+x@1")
			heard(false)
		}},
		{"ACK-7 RES-2 all who subscribe wait for something else", func(b *bed, heard func(bool)) {
			p := b.joinAs(bareForm)
			p.c.Update(&Change{TypeURL: cds, Subscribe: names([]string{"x", "y"}), VersionInfo: "7"})
			b.connect(0)
			b.says(cds, "+x@1")
			heard(false)
			q := b.join()
			q.sub(cds, "x")
			b.says(cds, "+x@2")
			heard(true)
			q.c.Leave()
			b.says(cds, "+y@1") // what they waited for
			heard(true)
		}},
		{"ACK-7 members that nobody follows any more do not hide one that is named", func(b *bed, heard func(bool)) {
			p, q := b.join(), b.join()
			p.sub(cds, globG)
			q.sub(cds, "z")
			b.connect(0)
			p.c.Leave() // what it followed stays subscribed
			var all []string
			for i := range 100 {
				all = append(all, "+"+strings.Replace(globG, "*", strconv.Itoa(i), 1)+"@1")
			}
			b.says(cds, append(all, "+z@1")...)
			heard(true)
		}},
		{"ACK-7 TTL-5 content that is not kept", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(eds, "x")
			b.connect(0)
			r := response(eds, "+x@1")
			r.Resources[0].DoNotCache = true
			if err := b.apply(0, r); err != nil {
				b.Fatal(err)
			}
			heard(true)
		}},
		{"ACK-7 an alias serves it", func(b *bed, heard func(bool)) {
			p := b.join()
			p.sub(eds, "other")
			b.connect(0)
			b.says(eds, "+x@1|other")
			heard(true)
		}},
	} {
		t.Run(s.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			s.run(b, func(want bool) {
				t.Helper()
				if got, _ := b.store.Session().Heard(); got != want {
					t.Errorf("goes to somebody: %t, want %t", got, want)
				}
			})
		})
	}
}

// A batch knows the changes that it has content of, and of which store (ACK-7).
func TestBatchParts_ACK7(t *testing.T) {
	b := newBed(t, cache.Limits{})
	p := b.join()
	p.sub(cds, "*")
	p.sub(eds, "x", "y")
	b.connect(0)
	b.says(cds, "+a@1", "+b@1") // changes 1 and 2
	b.says(eds, "+x@1", "+y@1") // 3 and 4
	b.says(cds, "+a@2")         // 5
	spans := func() (all []ack.Span) {
		batches, _, err := p.s.Collect(paceOf(func(string) bool { return false }, 1<<20, 8))
		if err != nil {
			t.Fatal(err)
		}
		for _, batch := range batches {
			for _, part := range batch.Parts(nil) {
				if part.Store != b.store {
					t.Error("another store's")
				}
				all = append(all, part.Content)
			}
		}
		return all
	}
	if got, want := spans(), []ack.Span{{First: 2, Last: 5}, {First: 3, Last: 4}}; !slices.Equal(got, want) {
		t.Errorf("the first batches have %v, want %v", got, want)
	}
	b.says(cds, "-b")
	b.store.Session().Settle(time.Now())
	if got := spans(); len(got) != 0 {
		t.Errorf("removals have content of %v", got)
	}
	late := b.join()
	late.sub(cds, "*")
	p = late
	if got, want := spans(), []ack.Span{{First: 5, Last: 5}}; !slices.Equal(got, want) {
		t.Errorf("the first batch of a client that comes late has %v, want %v", got, want)
	}
}
