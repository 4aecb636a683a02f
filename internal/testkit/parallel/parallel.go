// Package parallel is for tests that wait most of their time: for a time-out of
// another program, for instance. More of them can run at once than the machine has
// processors.
package parallel

import (
	"flag"
	"strconv"
)

// Tests lets n tests that call Parallel run at once, unless the command line says how
// many. TestMain calls it before it runs the tests.
func Tests(n int) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if given {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err) // there is no such flag outside a test
	}
}
