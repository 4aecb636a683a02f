package structure

import (
	"cmp"
	"flag"
	"maps"
	"slices"
	"testing"
)

var showArrows = flag.Bool("arrows", false, "list the arrows between files that run against the direction of the code")

// The limits for every area.
const (
	maxMethods  = 30  // of a type
	maxFields   = 18  // of a type
	maxFile     = 500 // lines
	maxMedian   = 180 // lines of the median file
	maxFunction = 35  // lines of nine functions in ten
	maxAgainst  = 30  // arrows between files against the direction of the code
)

// limited is an area with its own limits: what is allowed to be beyond the limits above for
// now, or what is below them already. These numbers only go down.
type limited struct {
	name          string
	rooms, except []string
	types         map[string]size
	files         map[string]int
	against       int // zero: maxAgainst
}

var areas = []limited{
	{
		name: "content and delivery", rooms: []string{"cache", "downstream/delivery"},
		types:   map[string]size{},
		against: maxAgainst,
	},
	{
		name: "downstream", rooms: []string{"downstream"}, except: []string{"downstream/delivery"},
		against: 5,
	},
	{
		name: "upstream", rooms: []string{"upstream"},
	},
}

// With -v it shows the numbers; with -arrows also which arrows run against the
// direction.
func TestLimits(t *testing.T) {
	c := load(t, "./cache/...", "./downstream/...", "./upstream/...")
	for _, l := range areas {
		t.Run(l.name, func(t *testing.T) {
			a := c.area(l.rooms, l.except)
			checkTypes(t, a.types(), l.types)
			checkFiles(t, a.files(), l.files)
			checkFunctions(t, a.functions())
			checkArrows(t, a.arrows(), cmp.Or(l.against, maxAgainst))
		})
	}
}

func checkTypes(t *testing.T, types, allowed map[string]size) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(types)) {
		is, limit := types[name], size{max(allowed[name].methods, maxMethods), max(allowed[name].fields, maxFields)}
		within(t, "methods of "+name, is.methods, limit.methods, maxMethods)
		within(t, "fields of "+name, is.fields, limit.fields, maxFields)
	}
	for name := range allowed {
		if _, ok := types[name]; !ok {
			t.Errorf("there is no type %s any more: take it off the list", name)
		}
	}
}

func checkFiles(t *testing.T, files, allowed map[string]int) {
	t.Helper()
	lengths := slices.Collect(maps.Values(files))
	median := quantile(lengths, 0.5)
	t.Logf("%d files: the median has %d lines, the longest %d", len(files), median, slices.Max(lengths))
	within(t, "lines of the median file", median, maxMedian, maxMedian)
	for _, path := range slices.Sorted(maps.Keys(files)) {
		within(t, "lines of "+path, files[path], max(allowed[path], maxFile), maxFile)
	}
	for path := range allowed {
		if _, ok := files[path]; !ok {
			t.Errorf("there is no file %s any more: take it off the list", path)
		}
	}
}

func checkFunctions(t *testing.T, lengths []int) {
	t.Helper()
	most := quantile(lengths, 0.9)
	t.Logf("%d functions: nine in ten have at most %d lines, the longest has %d", len(lengths), most, slices.Max(lengths))
	within(t, "lines of nine functions in ten", most, maxFunction, maxFunction)
}

func checkArrows(t *testing.T, arrows map[arrow]bool, limit int) {
	t.Helper()
	wrong := against(arrows)
	t.Logf("%d arrows between files: %d against the direction", len(arrows), len(wrong))
	within(t, "arrows against the direction", len(wrong), limit, maxAgainst)
	if *showArrows || len(wrong) > limit {
		for _, a := range wrong {
			t.Logf("%s uses %s", a.user, a.definer)
		}
	}
}

// within fails if a number is beyond its limit. Of a number that may be beyond the limit
// for every area it tells what it is.
func within(t *testing.T, what string, is, limit, every int) {
	t.Helper()
	switch {
	case is > limit:
		t.Errorf("%s: %d, and at most %d are allowed", what, is, limit)
	case limit > every && is < limit:
		t.Logf("%s: %d, and %d are allowed: lower the limit", what, is, limit)
	case limit > every:
		t.Logf("%s: %d, and at most %d would be right", what, is, every)
	}
}
