//go:build linux

package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
)

// Argument is the first argument of a child: a process that finds it calls Main.
const Argument = "serve"

// Process is a server in a process of its own. Its methods are called by one goroutine.
type Process struct {
	Kind   Kind
	Addr   string // for clients
	REST   string // for clients that poll; "" without
	Mutual string // for clients with mutual TLS: mtls://address/folder, with the folder of their certificate; "" without
	Admin  string // for operators; "" without
	Peers  string // for other relays; "" without

	cmd     *exec.Cmd
	folder  string // of certificates
	orders  io.WriteCloser
	answers *bufio.Reader
}

// Start starts a server with the first revisions of these resources.
func Start(ctx context.Context, kind Kind, sets ...content.Set) (*Process, error) {
	return start(ctx, &command{Op: opStart, Kind: kind, Sets: sets})
}

// StartRelay starts a relay.
func StartRelay(ctx context.Context, o RelayOptions) (*Process, error) {
	return start(ctx, &command{Op: opStart, Kind: Relay, RelayOptions: o})
}

func start(ctx context.Context, order *command) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", order.Kind, err)
	}
	cmd := exec.CommandContext(ctx, self, Argument) //nolint:gosec // this program
	cmd.Stderr = os.Stderr
	orders, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", order.Kind, err)
	}
	answers, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("server %s: %w", order.Kind, err)
	}
	if order.Folder, err = os.MkdirTemp("", "bench-tls-"); err != nil {
		return nil, fmt.Errorf("server %s: %w", order.Kind, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("server %s: %w", order.Kind, errors.Join(err, os.RemoveAll(order.Folder)))
	}
	p := &Process{Kind: order.Kind, cmd: cmd, folder: order.Folder, orders: orders, answers: bufio.NewReader(answers)}
	answer, err := p.ask(order)
	if err != nil {
		return nil, errors.Join(err, p.Close())
	}
	p.Addr, p.REST, p.Mutual, p.Admin, p.Peers = answer.Addr, answer.REST, answer.Mutual, answer.Admin, answer.Peers
	return p, nil
}

// ask has an order carried out.
func (p *Process) ask(order *command) (*reply, error) {
	line, err := json.Marshal(order)
	if err != nil {
		return nil, fmt.Errorf("server %s: %s: %w", p.Kind, order.Op, err)
	}
	if _, err := p.orders.Write(append(line, '\n')); err != nil {
		return nil, fmt.Errorf("server %s: %s: %w", p.Kind, order.Op, err)
	}
	if line, err = p.answers.ReadBytes('\n'); err != nil {
		return nil, fmt.Errorf("server %s: %s: %w", p.Kind, order.Op, err)
	}
	answer := new(reply)
	if err := json.Unmarshal(line, answer); err != nil {
		return nil, fmt.Errorf("server %s: %s: %w", p.Kind, order.Op, err)
	}
	if answer.Error != "" {
		return nil, fmt.Errorf("server %s: %s: %s", p.Kind, order.Op, answer.Error)
	}
	return answer, nil
}

// Update changes a resource, and tells when the server began with that, by package
// clock.
func (p *Process) Update(typeURL string, item, revision int) (began int64, err error) {
	answer, err := p.ask(&command{Op: opUpdate, TypeURL: typeURL, Item: item, Revision: revision})
	if err != nil {
		return 0, err
	}
	return answer.Began, nil
}

// Churn makes the updates of a schedule, but none after limit. It tells how many were made,
// and when the last one was. Times are those of package clock.
func (p *Process) Churn(typeURL string, s *fleet.Schedule, limit int64) (made int, ended int64, err error) {
	answer, err := p.ask(&command{
		Op: opChurn, TypeURL: typeURL, Items: s.Items, Updates: s.Updates,
		Start: s.Start, Interval: int64(s.Interval), Limit: limit,
	})
	if err != nil {
		return 0, 0, err
	}
	return answer.Made, answer.Ended, nil
}

// Stats gives what the server counted.
func (p *Process) Stats() (Stats, error) {
	answer, err := p.ask(&command{Op: opStats})
	if err != nil {
		return Stats{}, err
	}
	return answer.Stats, nil
}

// Free has the server give back what memory it does not need.
func (p *Process) Free() error {
	_, err := p.ask(&command{Op: opFree})
	return err
}

// patience is how long a server may take to end by itself.
const patience = 30 * time.Second

// Close ends the process, and removes its folder: the process cannot if the end of a context kills it.
func (p *Process) Close() error {
	err := p.orders.Close()
	timer := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() }) // Wait tells of it
	defer timer.Stop()
	if err := errors.Join(err, p.cmd.Wait(), os.RemoveAll(p.folder)); err != nil {
		return fmt.Errorf("server %s: %w", p.Kind, err)
	}
	return nil
}
