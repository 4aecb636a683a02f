//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/attack"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/clock"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/report"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// attacks is updates and joins beside one client that means harm.
func attacks() scenario {
	return scenario{
		name: "attack", aside: true, title: "One client against the rest",
		text: "Updates, one at a time, to incremental clients that follow resources of 1 KiB, and clients that join one after the other, and leave once they have everything: " +
			"while one client, in a process of its own on the same cores, does what harms servers. " +
			"Shown are p99 of the updates, in their median, p99 of the joins, the server's peak of resident memory over what it had before, " +
			"and what it has more than before half a minute after the attacker is gone, or sooner if that is little; the same times before the attacker comes and " +
			"after it is gone; and how often the relay says that a limit was in a client's way (`xdsrelay_downstream_limited_total`).",
		servers: []server.Kind{server.Baseline, server.Relay},
		metrics: []report.Metric{
			{Name: "p99", Title: "p99 of updates", Form: report.Ratio},
			{Name: "join", Title: "p99 of joins", Form: report.Ratio},
			{Name: "peak", Title: "peak memory", Form: report.Bytes},
			{Name: "left", Title: "memory afterwards", Form: report.Bytes},
			{Name: "p99_before", Title: "p99 before", Form: report.Ratio},
			{Name: "join_before", Title: "join before", Form: report.Ratio},
			{Name: "p99_after", Title: "p99 after", Form: report.Ratio},
			{Name: "join_after", Title: "join after", Form: report.Ratio},
			{Name: "limited", Title: "limited", Form: report.Count},
		},
		variants: func(o *options) []variant {
			var all []variant
			for _, a := range attack.All() {
				if len(o.attacks) > 0 && !slices.Contains(o.attacks, a.Name) {
					continue
				}
				all = append(all, o.grid(choice{[]int{100}, []int{20}}, both(100), attackBy(o, a))...)
			}
			return all
		},
	}
}

var limitedSeries = regexp.MustCompile(`(?m)^xdsrelay_downstream_limited_total\{limit="([a-z_]+)"\} (\S+)$`)

// What is polled for: so many resources of so many bytes.
const (
	polled     = 1000
	polledSize = 20 << 10
)

// littleLeft is how much more memory than before a server may keep of an attack.
const littleLeft = 64 << 20

func attackBy(o *options, a attack.Attack) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		x := &attacked{attack: a, size: 1, clients: clients, during: phase{200, 10 * time.Second}, calm: phase{40, 2 * time.Second}}
		if o.quick {
			x.size, x.during, x.calm = 0.05, phase{20, 500 * time.Millisecond}, phase{4, 100 * time.Millisecond}
		}
		sets := []content.Set{{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}}
		if a.REST {
			sets = append(sets, content.Set{TypeURL: content.EndpointType, Count: polled, Size: int(x.size * polledSize)})
		}
		return variant{
			name: a.Title, about: 20 * time.Second, strangers: true,
			bars:  []report.Bar{toBaseline("p99", 3), toBaseline("join", 3), atMost("left", littleLeft)},
			sets:  sets,
			items: resources, updates: warmUp + x.during.updates + 2*x.calm.updates,
			measure: x.measure,
		}
	}
}

// attacked is a measurement beside an attack.
type attacked struct {
	attack  attack.Attack
	size    float64
	clients int
	during  phase
	calm    phase // before the attack, and after it

	made int // updates until now
}

// phase is so many updates in a time, or in a longer one if they take that.
type phase struct {
	updates int
	lasting time.Duration
}

func (x *attacked) measure(ctx context.Context, d *deployment) (report.Values, error) {
	x.made = 0
	at := d.server.Addr
	switch {
	case x.attack.REST:
		at = d.server.REST
	case x.attack.Admin:
		at = cmp.Or(d.server.Admin, at)
	case x.attack.Peers:
		at = cmp.Or(d.server.Peers, at)
	case x.attack.TLS:
		at = d.server.Mutual
	}
	if err := d.add(ctx, x.clients, d.everything); err != nil {
		return nil, err
	}
	for ; x.made < warmUp; x.made++ {
		if _, err := d.updateBeside(ctx, x.made); err != nil {
			return nil, err
		}
	}
	v := report.Values{}
	if err := x.play(ctx, d, x.calm, v, "_before"); err != nil {
		return nil, err
	}
	before, err := d.resident()
	if err != nil {
		return nil, err
	}
	if err := x.endure(ctx, d, at, v); err != nil {
		return nil, err
	}
	memory, err := d.server.Memory()
	if err != nil {
		return nil, err
	}
	left, err := d.forgets(ctx, before)
	if err != nil {
		return nil, err
	}
	if err := d.memoryProfile(ctx, "left"); err != nil {
		return nil, err
	}
	v["peak"], v["left"] = float64(max(0, memory.Peak-before)), float64(max(0, left-before))
	if err := x.play(ctx, d, x.calm, v, "_after"); err != nil {
		return nil, err
	}
	return v, d.limited(ctx, v)
}

// endure plays the attack at an address.
func (x *attacked) endure(ctx context.Context, d *deployment, at string, v report.Values) error {
	end, err := startAttack(ctx, x.attack.Name, at, x.size)
	if err != nil {
		return err
	}
	profiles, err := d.profile(ctx)
	if err == nil {
		err = errors.Join(x.play(ctx, d, x.during, v, ""), profiles.close())
	}
	return errors.Join(err, end())
}

// play measures updates and joins, in turn, for the time of a phase, and notes them under names that end in
// suffix.
func (x *attacked) play(ctx context.Context, d *deployment, p phase, v report.Values, suffix string) error {
	over := time.After(p.lasting)
	ticker := time.NewTicker(p.lasting / time.Duration(p.updates))
	defer ticker.Stop()
	var p99 []float64
	var joins report.Histogram
	for range p.updates {
		took, err := d.updateBeside(ctx, x.made)
		if err != nil {
			return err
		}
		x.made++
		p99 = append(p99, took)
		if len(p99)%updatesPerJoin == 0 {
			took, err := d.joinBeside(ctx, x.clients)
			if err != nil {
				return err
			}
			joins.Add(took, 1)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	select {
	case <-over:
	case <-ctx.Done():
		return ctx.Err()
	}
	s, _ := report.SpreadOf(p99)
	v["p99"+suffix], v["join"+suffix] = s.Median, joins.Quantile(0.99).Seconds()
	return nil
}

// updatesPerJoin is how many updates there are for each client that joins.
const updatesPerJoin = 2

// updateBeside makes an update, and gives the p99 of what the clients waited for it, in seconds.
func (d *deployment) updateBeside(ctx context.Context, n int) (float64, error) {
	sequence := fleet.Schedule{Items: d.sets[0].Count}
	item, revision := sequence.At(n)
	d.fleet.Target([]int{d.names.First(0) + item}, revision)
	began, err := d.plane.Update(d.sets[0].TypeURL, item, revision)
	if err != nil {
		return 0, err
	}
	if err := d.fleet.Await(ctx); err != nil {
		return 0, err
	}
	return d.fleet.Latencies(began).Quantile(0.99).Seconds(), nil
}

// joinBeside has one client more than there are join, tells how long it took until it had everything, and has it leave.
func (d *deployment) joinBeside(ctx context.Context, clients int) (time.Duration, error) {
	now := clock.New()
	began := now.Now()
	d.fleet.Add(1, d.everything)
	err := d.fleet.Await(ctx)
	took := time.Duration(now.Now() - began)
	d.fleet.Leave(clients)
	return took, err
}

// forgets waits until a relay has given back the memory that it took, for half a minute at
// most, and tells how much it has.
func (d *deployment) forgets(ctx context.Context, before int) (left int, err error) {
	limit := time.After(30 * time.Second)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		if left, err = d.resident(); err != nil || d.plane == d.server || left-before <= littleLeft/2 {
			return left, err
		}
		select {
		case <-ticker.C:
		case <-limit:
			return left, nil
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// limited notes how often a relay says that its limits were in a client's way: of each limit, and in all.
func (d *deployment) limited(ctx context.Context, v report.Values) error {
	if d.server.Admin == "" {
		return nil
	}
	text, err := d.ask(ctx, "/metrics")
	if err != nil {
		return fmt.Errorf("metrics: %w", err)
	}
	v["limited"] = 0
	for _, m := range limitedSeries.FindAllSubmatch(text, -1) {
		n, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			return fmt.Errorf("metrics: %w", err)
		}
		if n > 0 {
			v["limited by "+string(m[1])] = n
		}
		v["limited"] += n
	}
	return nil
}

// attackArgument is the first argument of an attacker: name, address and size follow.
const attackArgument = "attack"

// attackAs is the attacker's side. The end of standard input ends it.
func attackAs(args []string) error {
	const needed = 3
	if len(args) != needed {
		return fmt.Errorf("expected a name, an address and a size, got %q", args)
	}
	size, err := strconv.ParseFloat(args[2], 64)
	if err != nil {
		return fmt.Errorf("the size: %w", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return attack.Run(ctx, args[0], args[1], size, os.Stdout)
}

// startAttack starts an attacker, and waits until its attack is under way. end kills it.
func startAttack(ctx context.Context, name, addr string, size float64) (end func() error, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, attackArgument, name, addr, strconv.FormatFloat(size, 'g', -1, 64)) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	end = func() error {
		_ = input.Close()
		_ = cmd.Process.Kill() // an attacker says no goodbye
		_ = cmd.Wait()         // which tells of it
		return nil
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if strings.TrimSpace(line) != attack.Ready {
		return nil, errors.Join(fmt.Errorf("the attacker %s is not ready", name), err, end())
	}
	return end, nil
}
