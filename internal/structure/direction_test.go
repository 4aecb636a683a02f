package structure

import (
	"cmp"
	"maps"
	"math/rand/v2"
	"slices"
)

// against returns the arrows that run against the direction of the code. The direction
// is the order of the files with the fewest such arrows: in it a file stands after the
// files that it uses.
//
// To be certain of that order would take too long. The search starts from many random
// orders and moves one file at a time to its best place, until no move helps. The
// random numbers are always the same, and so is the result.
func against(arrows map[arrow]bool) []arrow {
	g := newGraph(arrows)
	random := rand.New(rand.NewPCG(1, 2))
	fewest := slices.SortedFunc(maps.Keys(arrows), arrow.compare)
	for range searches {
		order := random.Perm(len(g.files))
		for g.improve(order) {
		}
		if found := g.against(order); len(found) < len(fewest) {
			fewest = found
		}
	}
	return fewest
}

// searches is how many random orders are tried. The best result comes many times.
const searches = 3000

// graph has the files by number, and the arrows as a matrix.
type graph struct {
	files []string
	uses  [][]int // uses[a][b] is 1 if file a uses file b, else 0
}

func newGraph(arrows map[arrow]bool) graph {
	var g graph
	for a := range arrows {
		g.files = append(g.files, a.user, a.definer)
	}
	slices.Sort(g.files)
	g.files = slices.Compact(g.files)
	for _, user := range g.files {
		row := make([]int, len(g.files))
		for i, definer := range g.files {
			if arrows[arrow{user, definer}] {
				row[i] = 1
			}
		}
		g.uses = append(g.uses, row)
	}
	return g
}

// against returns the arrows from a file to one that comes after it.
func (g graph) against(order []int) []arrow {
	var found []arrow
	for i, user := range order {
		for _, definer := range order[i+1:] {
			if g.uses[user][definer] == 1 {
				found = append(found, arrow{g.files[user], g.files[definer]})
			}
		}
	}
	slices.SortFunc(found, arrow.compare)
	return found
}

func (a arrow) compare(b arrow) int {
	return cmp.Or(cmp.Compare(a.user, b.user), cmp.Compare(a.definer, b.definer))
}

// improve moves each file to its best place and tells whether that made the order
// better.
func (g graph) improve(order []int) (better bool) {
	for file := range g.files {
		from := slices.Index(order, file)
		to := g.place(order, from)
		if to != from {
			copy(order[from:], order[from+1:])
			copy(order[to+1:], order[to:len(order)-1])
			order[to] = file
			better = true
		}
	}
	return better
}

// place returns the best place for the file that stands at from: from itself if no
// other is better.
func (g graph) place(order []int, from int) int {
	file, to := order[from], from
	best, cost := 0, 0
	for i := from + 1; i < len(order); i++ { // behind a file that it uses, or before one that uses it
		cost += g.uses[order[i]][file] - g.uses[file][order[i]]
		if cost < best {
			best, to = cost, i
		}
	}
	cost = 0
	for i, other := range slices.Backward(order[:from]) {
		cost += g.uses[file][other] - g.uses[other][file]
		if cost < best {
			best, to = cost, i
		}
	}
	return to
}
