package simulate

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

var (
	from    = flag.Uint64("simulate.from", 1, "the first seed")
	seeds   = flag.Int("simulate.seeds", 100, "how many seeds are played")
	ops     = flag.String("simulate.ops", "", "the operations of the seeds that are played, as 0,3-7; empty: all")
	luck    = flag.Uint64("simulate.luck", 0, "with exact.sh: another number has what a seed does not decide happen otherwise")
	show    = flag.Bool("simulate.log", false, "show what happens in a seed")
	process = flag.Bool("simulate.process", false, "play the seeds in this process, one after the other")
)

// TestSimulate plays seeds in processes of their own. Each has one processor, so that there is
// little that a seed does not decide, and less with exact.sh. A seed that fails is played
// again with fewer and fewer operations.
func TestSimulate_SUR1_SUR2_SUR3_GATE4_RES2_RES11_RES12_ADS1_OPS1_OPS3(t *testing.T) {
	if *process {
		t.Skip("this is one of the processes")
	}
	batch := 20
	if exact {
		batch = 1 // so that nothing of one seed is left for the next
	}
	var done, next atomic.Int64
	var reporting sync.Mutex
	come := make(map[string]int)
	var working sync.WaitGroup
	if underRace { // which takes ten times as long
		*seeds = min(*seeds, 10)
	}
	for range min(2, runtime.NumCPU()) {
		working.Go(func() {
			for {
				n := int(next.Add(int64(batch))) - batch
				if n >= *seeds {
					return
				}
				for _, r := range play(t, *from+uint64(n), min(batch, *seeds-n), *ops, *show) {
					reporting.Lock()
					addEffects(come, r.effects)
					reporting.Unlock()
					if r.failure != "" {
						reporting.Lock()
						report(t, r)
						reporting.Unlock()
					}
					if d := done.Add(1); d%100 == 0 {
						t.Logf("%d seeds played", d)
					}
				}
			}
		})
	}
	working.Wait()
	judgeEffects(t, come)
}

// result is what became of a seed.
type result struct {
	seed    uint64
	failure string // "": none
	log     string // what happened, if that was to be shown
	effects string // of a seed that passed: what its operations came to
}

// play plays seeds in another process. One that ends in the middle of a seed is that seed's
// failure, and those after it are played in the next process.
func play(t *testing.T, first uint64, n int, ops string, log bool) []result {
	t.Helper()
	var all []result
	for n > 0 {
		some := playSome(t, first, n, ops, log)
		all = append(all, some...)
		first, n = first+uint64(len(some)), n-len(some)
	}
	return all
}

func playSome(t *testing.T, first uint64, n int, ops string, log bool) []result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute+time.Duration(n)*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestProcess$", "-test.timeout=24h", "-simulate.process", "-simulate.ops="+ops,
		"-simulate.from="+strconv.FormatUint(first, 10), "-simulate.seeds="+strconv.Itoa(n), "-simulate.log="+strconv.FormatBool(log),
		"-simulate.luck="+strconv.FormatUint(*luck, 10))
	cmd.Env = os.Environ()
	if exact { // a variable more or less has chance decide otherwise
		cmd.Env = []string{"TMPDIR=" + os.TempDir(), "GOGC=off", "GOMEMLIMIT=3GiB"}
	}
	// With one processor and no preemption a goroutine that waits for another one without blocking waits for ever, and in
	// its bubble no time passes. gRPC has one such place: a stream that begins on a connection of which writing has
	// failed, and reading not yet, is retried at once and without end ("transparent retry"), until the connection's reader
	// says that it is broken. A seed hung there when the network had writes fail before what the peer did had arrived
	// (end.Write). A real relay leaves that loop after microseconds: a socket breaks in both directions at once, and the
	// reader has a processor, or is given one.
	cmd.Env = append(cmd.Env, "GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1", "GOTRACEBACK=all")
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return []result{{seed: first, failure: err.Error()}}
	}
	all, rest := results(out)
	err = cmd.Wait()
	if len(all) < n { // it ended in the middle of one
		text := rest + errs.String()
		all = append(all, result{seed: first + uint64(len(all)), failure: fmt.Sprintf("the process ended: %v\n%s", err, text[:min(len(text), 20_000)])})
	}
	return all
}

// The lines with which a process tells what became of a seed, which follows and then why.
const passed, broken = "SIMULATED PASS ", "SIMULATED FAIL "

// results reads what a process tells. rest is what it said of a seed that it did not end.
func results(out io.Reader) (all []result, rest string) {
	lines := bufio.NewReader(out)
	var log strings.Builder
	for {
		line, err := lines.ReadString('\n')
		verdict, pass := strings.CutPrefix(line, passed)
		text, failed := strings.CutPrefix(line, broken)
		if failed {
			verdict = text
		}
		if pass || failed {
			number, why, _ := strings.Cut(strings.TrimSpace(verdict), " ")
			seed, _ := strconv.ParseUint(number, 10, 64) // which we wrote
			r := result{seed: seed, log: log.String()}
			if failed {
				r.failure = why
			} else {
				r.effects = why
			}
			all = append(all, r)
			log.Reset()
		} else {
			log.WriteString(line)
		}
		if err != nil {
			return all, log.String()
		}
	}
}

// TestProcess plays seeds in this process, for TestSimulate.
func TestProcess(t *testing.T) {
	if !*process {
		t.Skip("TestSimulate begins processes")
	}
	for seed := *from; seed < *from+uint64(*seeds); seed++ {
		plan, err := choose(planOf(seed), *ops)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Test(t, func(t *testing.T) {
			seedRuntime(seed, *luck)
			out := run(t, seed, plan, exact || *show) // to make a log changes what chance decides
			for _, e := range out.events {
				if *show {
					fmt.Println(e)
				}
			}
			if len(out.failures) > 0 {
				fmt.Printf("%s%d %s\n", broken, seed, strings.ReplaceAll(strings.Join(out.failures, "; "), "\n", " "))
				return
			}
			fmt.Printf("%s%d %d responses%s\n", passed, seed, out.responses, out.effects)
		})
	}
}

// choose takes the operations of a list like 0,3-7 out of a plan; all if the list is empty.
func choose(plan []op, list string) ([]op, error) {
	if list == "" {
		return plan, nil
	}
	chosen := make(map[int]bool)
	for part := range strings.SplitSeq(list, ",") {
		a, b, is := strings.Cut(part, "-")
		first, err := strconv.Atoi(a)
		last := first
		if err == nil && is {
			last, err = strconv.Atoi(b)
		}
		if part == "none" {
			continue
		}
		if err != nil || first > last || last >= len(plan) {
			return nil, fmt.Errorf("%q is no list of operations, of which there are %d", list, len(plan))
		}
		for i := first; i <= last; i++ {
			chosen[i] = true
		}
	}
	return slices.DeleteFunc(slices.Clone(plan), func(o op) bool { return !chosen[o.id] }), nil
}

// list is how choose is told of operations.
func list(plan []op) string {
	plan = slices.SortedFunc(slices.Values(plan), func(a, b op) int { return cmp.Compare(a.id, b.id) })
	var parts []string
	for i := 0; i < len(plan); {
		j := i
		for j+1 < len(plan) && plan[j+1].id == plan[j].id+1 {
			j++
		}
		if i == j {
			parts = append(parts, strconv.Itoa(plan[i].id))
		} else {
			parts = append(parts, fmt.Sprint(plan[i].id, "-", plan[j].id))
		}
		i = j + 1
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ",")
}

// report tells of a seed that failed, with as few operations as it still fails with.
func report(t *testing.T, r result) {
	t.Helper()
	plan, err := choose(planOf(r.seed), *ops)
	if err != nil {
		t.Error(err)
		return
	}
	last := r
	fails := func(some []op) bool {
		tries := 1
		if !exact {
			tries = 2 // what chance decides may be otherwise
		}
		for range tries {
			if again := play(t, r.seed, 1, list(some), false)[0]; again.failure != "" {
				last = again
				return true
			}
		}
		return false
	}
	if *ops != "" || !fails(plan) {
		t.Errorf("seed %d: %s\n%s", r.seed, r.failure, r.log)
		return
	}
	short := shrink(plan, fails)
	var text strings.Builder
	for _, o := range short {
		fmt.Fprintln(&text, o)
	}
	t.Errorf("seed %d: %s\nwith these operations (of %d) it is: %s\n%splay them with: make soak SUITE=simulate FROM=%d SEEDS=1 OPS=%s",
		r.seed, r.failure, len(plan), last.failure, &text, r.seed, list(short))
}

// shrink drops operations as long as a plan still fails: first halves, at last single ones.
func shrink(plan []op, fails func([]op) bool) []op {
	for size := len(plan) / 2; size > 0; size /= 2 {
		for i := 0; i < len(plan); {
			less := slices.Concat(plan[:i], plan[min(i+size, len(plan)):])
			if fails(less) {
				plan = less
			} else {
				i += size
			}
		}
	}
	return plan
}

// TestShrink: what remains is what it takes.
func TestShrink(t *testing.T) {
	plan := planOf(1)
	runs := 0
	short := shrink(plan, func(some []op) bool {
		runs++
		has := func(id int) bool { return slices.ContainsFunc(some, func(o op) bool { return o.id == id }) }
		return has(3) && has(40)
	})
	if got := list(short); got != "3,40" || runs > 60 {
		t.Errorf("operations %s after %d runs", got, runs)
	}
	if again, err := choose(plan, "5-8,11"); err != nil || list(again) != "5-8,11" {
		t.Errorf("%v, %v", again, err)
	}
	if _, err := choose(plan, "7-5"); err == nil {
		t.Error("a list from 7 to 5 was taken")
	}
}

// TestReplay plays seeds twice. The operations are the same. With exact.sh what happens begins
// with the same lines, and the log tells how many.
func TestReplay(t *testing.T) {
	if *process {
		t.Skip("this is one of the processes")
	}
	for seed := *from; seed < *from+3; seed++ {
		if plan, again := planOf(seed), planOf(seed); !slices.Equal(plan, again) || len(plan) < operations {
			t.Errorf("seed %d has the plans %v and %v", seed, plan, again)
		}
		if !exact {
			continue
		}
		one, two := play(t, seed, 1, "", true)[0], play(t, seed, 1, "", true)[0]
		if one.log != two.log {
			a, b := strings.Split(one.log, "\n"), strings.Split(two.log, "\n")
			i := 0
			for i < min(len(a), len(b))-1 && a[i] == b[i] {
				i++
			}
			t.Logf("seed %d: line %d is\n%s\nand then\n%s", seed, i, a[i], b[i])
			if i < 50 {
				t.Errorf("seed %d: only %d lines are the same", seed, i)
			}
		}
	}
}
