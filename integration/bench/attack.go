//go:build linux

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
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
		text: "Updates, one at a time, to incremental clients that follow resources of 1 KiB, and clients that join one after the other: " +
			"while one client, in a process of its own on the same cores, does what harms servers. " +
			"Shown are p99 of the updates, in their median, the slowest of the joins, the server's peak of resident memory over what it had before, " +
			"and what it has more than before half a minute after the attacker is gone, or sooner if that is little. " +
			"Polls are an attack on servers that have them.",
		servers: []server.Kind{server.Floor, server.Relay},
		metrics: []report.Metric{
			{Name: "p99", Title: "p99 of updates", Form: report.Ratio},
			{Name: "join", Title: "slowest join", Form: report.Ratio},
			{Name: "peak", Title: "peak memory", Form: report.Bytes},
			{Name: "left", Title: "memory afterwards", Form: report.Bytes},
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

// What is polled for: so many resources of so many bytes.
const (
	polled     = 1000
	polledSize = 20 << 10
)

// littleLeft is how much more memory than before a server may keep of an attack.
const littleLeft = 64 << 20

func attackBy(o *options, a attack.Attack) func(clients, resources int) variant {
	return func(clients, resources int) variant {
		x := &attacked{attack: a, size: 1, clients: clients, updates: 200, lasting: 10 * time.Second}
		if o.quick {
			x.size, x.updates, x.lasting = 0.05, 20, 500*time.Millisecond
		}
		sets := []content.Set{{TypeURL: content.ClusterType, Count: resources, Size: payloadSize}}
		if a.REST {
			sets = append(sets, content.Set{TypeURL: content.EndpointType, Count: polled, Size: int(x.size * polledSize)})
		}
		return variant{
			name: a.Title, about: 20 * time.Second, strangers: true,
			bars:  []report.Bar{toFloor("p99", 3), toFloor("join", 3), atMost("left", littleLeft)},
			sets:  sets,
			items: resources, updates: warmUp + x.updates,
			measure: x.measure,
		}
	}
}

// attacked is a measurement beside an attack.
type attacked struct {
	attack  attack.Attack
	size    float64
	clients int
	updates int
	lasting time.Duration // the attack, unless updates take longer
}

func (x *attacked) measure(ctx context.Context, d *deployment) (report.Values, error) {
	at := d.server.Addr
	if x.attack.REST {
		if at = d.server.REST; at == "" {
			return report.Values{}, nil
		}
	}
	if err := d.add(ctx, x.clients, d.everything); err != nil {
		return nil, err
	}
	made := 0
	for ; made < warmUp; made++ {
		if _, err := d.updateBeside(ctx, made); err != nil {
			return nil, err
		}
	}
	before, err := d.resident()
	if err != nil {
		return nil, err
	}
	end, err := startAttack(ctx, x.attack.Name, at, x.size)
	if err != nil {
		return nil, err
	}
	v, err := x.beside(ctx, d, &made)
	if err := errors.Join(err, end()); err != nil {
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
	return v, nil
}

// beside measures updates and joins, in turn, for as long as the attack lasts.
func (x *attacked) beside(ctx context.Context, d *deployment, made *int) (report.Values, error) {
	over := time.After(x.lasting)
	ticker := time.NewTicker(x.lasting / time.Duration(x.updates))
	defer ticker.Stop()
	var p99 []float64
	slowest := time.Duration(0)
	for range x.updates {
		took, err := d.updateBeside(ctx, *made)
		if err != nil {
			return nil, err
		}
		*made++
		p99 = append(p99, took)
		if len(p99)%updatesPerJoin == 0 {
			took, err := d.joinBeside(ctx)
			if err != nil {
				return nil, err
			}
			slowest = max(slowest, took)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	select {
	case <-over:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	s, _ := report.SpreadOf(p99)
	return report.Values{"p99": s.Median, "join": slowest.Seconds()}, nil
}

// updatesPerJoin is how many updates there are for each client that joins.
const updatesPerJoin = 4

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

// joinBeside has one client join, and tells how long it took until it had everything.
func (d *deployment) joinBeside(ctx context.Context) (time.Duration, error) {
	now := clock.New()
	began := now.Now()
	d.fleet.Add(1, d.everything)
	err := d.fleet.Await(ctx)
	return time.Duration(now.Now() - began), err
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
