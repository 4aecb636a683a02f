//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/attack"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// options are what the command line says.
type options struct {
	scenarios []string
	attacks   []string      // nil: all
	servers   []server.Kind // nil: the baseline, the relay, and the others where a scenario compares with them
	clients   []int         // nil: the scenario's own
	resources []int         // nil: the scenario's own
	runs      int
	limit     time.Duration // of one measurement
	quick     bool
	loops     int
	streams   int
	access    int           // rules of relays
	cache     string        // the folder for snapshots of relays; "": none
	every     time.Duration // between snapshots; 0: as by default
	output    string
	write     string // a file; "": none
	profiles  string // a folder; "": none
	measuring string // the scenario and variant at hand, for the names of profiles
}

// Forms of output.
const (
	outputMarkdown = "markdown"
	outputJSON     = "json"
)

// parse reads the command line. flag.ErrHelp says that help was asked for, and given.
func parse(args []string, help io.Writer) (*options, error) {
	o := &options{}
	var names []string
	for _, s := range scenarios() {
		names = append(names, s.name)
		if !s.aside {
			o.scenarios = append(o.scenarios, s.name)
		}
	}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(help)
	list := func(name, usage string, allowed []string, into func([]string)) {
		f.Func(name, usage, func(s string) error {
			given := strings.Split(s, ",")
			for _, g := range given {
				if !slices.Contains(allowed, g) {
					return fmt.Errorf("%q is none of %s", g, strings.Join(allowed, ", "))
				}
			}
			into(given)
			return nil
		})
	}
	kinds := make([]string, 0, len(server.Kinds()))
	for _, k := range server.Kinds() {
		kinds = append(kinds, string(k))
	}
	list("scenario", "run only these `scenarios`: "+strings.Join(names, ",")+" (default all but attack)", names, func(s []string) { o.scenarios = s })
	list("server", "run these `servers` in every scenario: "+strings.Join(kinds, ",")+" (default baseline, relay, and the others where they are compared)", kinds, func(s []string) {
		o.servers = nil
		for _, k := range server.Kinds() { // in their order, whatever was given
			if slices.Contains(s, string(k)) {
				o.servers = append(o.servers, k)
			}
		}
	})
	var attacks []string
	for _, a := range attack.All() {
		attacks = append(attacks, a.Name)
	}
	list("attack", "of the scenario attack, only these `attacks`: "+strings.Join(attacks, ","), attacks, func(s []string) { o.attacks = s })
	f.Func("clients", "`numbers` of clients, in place of the scenarios' own", numbers(&o.clients))
	f.Func("resources", "`numbers` of resources, in place of the scenarios' own", numbers(&o.resources))
	f.IntVar(&o.runs, "runs", 0, "how many `times` everything is measured (default 5, with -quick 1)")
	f.DurationVar(&o.limit, "limit", 3*time.Minute, "how `long` one measurement may take until it is given up")
	f.BoolVar(&o.quick, "quick", false, "small sizes, to see whether it works: without bars")
	f.IntVar(&o.loops, "loops", 1, "`threads` that the clients run on")
	f.IntVar(&o.streams, "streams", 1, "`clients` on one connection")
	f.IntVar(&o.access, "access", 0, "how many access `rules` relays have: all are asked for each stream and type, and the last one allows everything")
	f.StringVar(&o.cache, "cache", "", "relays write snapshots (cache.dir) below this `folder`, which must be there")
	f.DurationVar(&o.every, "every", 0, "the `interval` of these snapshots, from 1s to 1h (default: the relay's)")
	f.StringVar(&o.output, "output", outputMarkdown, "`form` of the tables: markdown or json")
	f.StringVar(&o.write, "write", "", "put the tables into this Markdown `file` as well, each when it is complete")
	f.StringVar(&o.profiles, "profiles", "", "keep profiles of the relay and of the clients in this `folder`, which is made if it is not there")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if err := o.check(f.Args()); err != nil {
		return nil, err
	}
	if err := o.room(); err != nil {
		return nil, err
	}
	return o, nil
}

// mostClients is the largest fleet of all scenarios.
const mostClients = 10_000

// sockets is how many files a process has open beside one for each client. A relay leaves a quarter of its
// files for others than clients.
const sockets = 100

// room checks that so many clients may be connected. Go has raised the limit to what it
// may be raised to.
func (o *options) room() error {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("the limit of open files: %w", err)
	}
	most := slices.Max(o.or(o.clients, choice{[]int{mostClients}, []int{1000}}))
	if need := uint64(most/o.streams*4/3 + sockets); limit.Max < need {
		return fmt.Errorf("%d open files are allowed, and %d are needed: raise the hard limit (ulimit -Hn), or ask for fewer -clients or more -streams", limit.Max, need)
	}
	return nil
}

func (o *options) check(rest []string) error {
	switch {
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q", rest[0])
	case o.output != outputMarkdown && o.output != outputJSON:
		return fmt.Errorf("-output: %q is neither markdown nor json", o.output)
	case o.access < 0:
		return errors.New("-access: expected a number of rules, zero for none")
	case o.every != 0 && (o.cache == "" || o.every < time.Second || o.every > time.Hour):
		return errors.New("-every: expected -cache, and from 1s to 1h")
	case o.runs < 0, o.loops < 1, o.streams < 1, o.limit <= 0:
		return errors.New("-runs, -limit, -loops and -streams: expected a number above zero")
	}
	if o.runs == 0 {
		o.runs = 5
		if o.quick {
			o.runs = 1
		}
	}
	return nil
}

// numbers reads a list of numbers above zero, and gives each once, the smallest first:
// lines are found by them, and sizes compared with the smallest.
func numbers(into *[]int) func(string) error {
	return func(s string) error {
		*into = nil
		for part := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(part)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a number above zero", part)
			}
			*into = append(*into, n)
		}
		slices.Sort(*into)
		*into = slices.Compact(*into)
		return nil
	}
}
