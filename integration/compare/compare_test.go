package compare

import (
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/xdsrelay/xdsrelay/internal/testkit/parallel"
	"github.com/xdsrelay/xdsrelay/internal/testkit/plane"
)

var (
	oldBuild = flag.String("compare.old", "", "the xdsrelay that differences are differences from")
	newBuild = flag.String("compare.new", "", "the xdsrelay that is examined")
	from     = flag.Uint64("compare.from", 1, "the first seed that TestCompare plays")
	seeds    = flag.Uint64("compare.seeds", 8, "how many seeds it plays")
	tries    = flag.Int("compare.tries", 6, "how often a seed is played before a difference is no chance")
	show     = flag.Bool("compare.show", false, "show all lines of all steps")
)

// atOnce is how many walks run at once: they wait most of their time.
const atOnce = 16

func TestMain(m *testing.M) {
	parallel.Tests(atOnce)
	goleak.VerifyTestMain(m)
}

// TestCompare plays seeds.
func TestCompare(t *testing.T) {
	t.Parallel()
	for seed := *from; seed < *from+*seeds; seed++ {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			w := walkOf(seed)
			var plays [2][]trace
			for range *tries {
				for i, played := range play([2]*side{newSide(t, *oldBuild, w), newSide(t, *newBuild, w)}) {
					plays[i] = append(plays[i], played)
				}
				if len(findings(plays[0], plays[1])) == 0 {
					break
				}
			}
			last := len(plays[0]) - 1
			if *show {
				t.Log(history(w, plays[1][last]))
			}
			if all := findings(plays[0], plays[1]); len(all) > 0 {
				t.Error(report(w, all, plays[0][last], plays[1][last]))
			}
		})
	}
}

// TestCompareFinds has the second control plane forget to remove what the first one removes.
func TestCompareFinds(t *testing.T) {
	t.Parallel()
	c1 := plane.Key{TypeURL: plane.Cluster, Name: "c1"}
	first := &walk{steps: []step{
		{verb: set, client: -1, change: plane.Change{Set: []plane.Resource{{Name: c1.Name, Message: messageOf(c1, "v1 ")}}}},
		{verb: subscribe, client: 1, typed: plane.Cluster, names: []string{"*"}},
		{verb: unset, client: -1, change: plane.Change{Remove: []plane.Key{c1}}},
	}}
	second := &walk{steps: slices.Clone(first.steps)}
	second.steps[2].change.Remove = nil
	traces := play([2]*side{newSide(t, "", first), newSide(t, "", second)})
	want := []finding{{2, 1, "-", "Cluster - c1"}, {2, 1, "-", "Cluster at 2"}}
	if got := findings(traces[:1], traces[1:]); !slices.Equal(got, want) {
		t.Errorf("%v, not %v\n%s", got, want, history(first, traces[0]))
	}
}

// play has both sides do the steps of their walks.
func play(sides [2]*side) (traces [2]trace) {
	both := func(do func(*side)) {
		var running sync.WaitGroup
		for _, s := range sides {
			running.Go(func() { do(s) })
		}
		running.Wait()
	}
	defer both((*side).stop)
	both((*side).quiet)
	for n := range sides[0].walk.steps {
		for _, s := range sides {
			s.do(s.walk.steps[n])
		}
		both((*side).quiet)
		for i, s := range sides {
			traces[i] = append(traces[i], s.take(n))
		}
	}
	return traces
}
