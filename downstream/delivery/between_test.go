package delivery

import (
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"google.golang.org/grpc/codes"
)

// A stream with places in several stores has them looked at one by one. What a
// store learns between the survey and the taking may be something that the state
// of the world has no word for: it must be passed over then too, or the response
// is one that no client can read.
func TestStateStores_RES3_LearnedBetweenSurveyAndTaking(t *testing.T) {
	for _, c := range []struct {
		name  string
		learn func(b *bed)
		want  string
	}{
		{"a name does not exist", func(b *bed) { b.says(eds, "-b") }, "EDS !b"},
		{"a resource is gone", func(b *bed) { b.says(eds, "-c") }, ""},
		{"a name failed", func(b *bed) { b.fails(eds, "b", codes.NotFound) }, "EDS !b"},
		{"a glob is empty", func(b *bed) { b.says(eds, "-"+globQ) }, ""},
		{"a member is gone", func(b *bed) { b.says(eds, "-"+nameG1) }, ""},
		{"a name exists", func(b *bed) { b.says(eds, "+b@1") }, "EDS b1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBed(t, cache.Limits{})
			other := b.cache.Open(cache.Source{Quiet: quiet})
			p := b.joinAs(bareForm)
			place := Join(other, ringing(p.bell), bareForm)
			t.Cleanup(place.Leave)
			p.sub(eds, "b", "c", globG, globQ)
			place.Update(&Change{TypeURL: eds, Subscribe: names([]string{"a"})})
			b.connect(0)
			other.Session().Restart(streamOf(0), 0)
			b.says(eds, "+c@1", "+"+nameG1+"@1")
			p.lists()
			if err := other.Session().Apply(streamOf(0), response(eds, "+a@1"), time.Now()); err != nil {
				t.Fatal(err)
			}

			learned, surveys := false, 0
			// Called for the other store's survey, when this one's is over.
			between := func(string) bool {
				if surveys++; learned || surveys == 1 {
					return false
				}
				learned = true
				c.learn(b)
				return false
			}
			var got []string
			for more := true; more; {
				var batches []*Batch
				batches, more = collectStates([]*Place{p.c, place}, between, 1<<20, 8)
				for _, batch := range batches {
					if n := batch.Body.Removed(); n != 0 {
						t.Errorf("RES-3: %d removals in a response that has no place for them", n)
					}
					if said := renderState(t, batch); said != "EDS" {
						got = append(got, said)
					}
				}
			}
			want := []string{"EDS a1"}
			if c.want != "" {
				want = append(want, c.want)
			}
			if !learned {
				t.Fatal("nothing was learned in between")
			}
			b.expectAll(got, want...)
			b.check()
		})
	}
}
