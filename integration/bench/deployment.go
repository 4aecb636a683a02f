//go:build linux

package main

import (
	"context"
	"errors"
	"time"

	"github.com/xdsrelay/xdsrelay/integration/bench/internal/content"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/server"
)

// deployment is a server with what it needs, in processes of their own, and the fleet
// that it serves.
type deployment struct {
	options   *options
	sets      []content.Set
	server    *server.Process // whom the clients talk to
	plane     *server.Process // who has the resources: the server itself, unless that is a relay
	fleet     *fleet.Fleet
	names     *content.Catalogue
	strangers bool // others than the fleet come
	cut       bool // what goes on was given up: clients lack something
}

// deploy starts a server of a variant's resources, and a fleet without clients.
func deploy(ctx context.Context, o *options, kind server.Kind, v *variant) (*deployment, error) {
	d := &deployment{options: o, sets: v.sets, strangers: v.strangers}
	if err := d.open(ctx, kind, v); err != nil {
		return nil, errors.Join(err, d.close())
	}
	return d, nil
}

func (d *deployment) open(ctx context.Context, kind server.Kind, v *variant) error {
	err := d.start(ctx, kind)
	if err != nil {
		return err
	}
	if d.names, err = content.NewCatalogue(v.sets...); err != nil {
		return err
	}
	sequence := fleet.Schedule{Items: v.items}
	for n := range v.updates {
		item, revision := sequence.At(n)
		if err := d.names.Add(0, item, revision); err != nil {
			return err
		}
	}
	d.fleet, err = fleet.New(fleet.Config{
		Addr: d.server.Addr, Catalogue: d.names, Loops: max(d.options.loops, v.loops), Streams: d.options.streams,
		State: v.state, Window: v.window,
	})
	return err
}

func (d *deployment) start(ctx context.Context, kind server.Kind) (err error) {
	if kind != server.Relay {
		d.server, err = server.Start(ctx, kind, d.sets...)
		d.plane = d.server
		return err
	}
	if d.plane, err = server.Start(ctx, server.Baseline, d.sets...); err != nil {
		return err
	}
	d.server, err = server.StartRelay(ctx, server.RelayOptions{
		Upstream: d.plane.Addr, Access: d.options.access, Strangers: d.strangers, Cache: d.options.cache, Every: d.options.every,
	})
	return err
}

// close ends everything.
func (d *deployment) close() error {
	if d.fleet != nil {
		d.fleet.Close()
	}
	var errs []error
	if d.server != nil {
		errs = append(errs, d.server.Close())
	}
	if d.plane != nil && d.plane != d.server {
		errs = append(errs, d.plane.Close())
	}
	return errors.Join(errs...)
}

// everything subscribes to all resources of the first set.
func (d *deployment) everything(int) []fleet.Subscription {
	return []fleet.Subscription{{TypeURL: d.sets[0].TypeURL}}
}

// add has n clients join, and waits until each has all that it asks for.
func (d *deployment) add(ctx context.Context, n int, subscribe func(client int) []fleet.Subscription) error {
	d.fleet.Add(n, subscribe)
	if err := d.fleet.Await(ctx); err != nil {
		return err
	}
	return d.quiet(ctx)
}

// quiet waits until the servers have dealt with everything.
func (d *deployment) quiet(ctx context.Context) error {
	if err := d.server.Quiet(ctx); err != nil || d.plane == d.server {
		return err
	}
	return d.plane.Quiet(ctx)
}

// usage is the CPU time that was used until now.
type usage struct {
	server  time.Duration
	plane   time.Duration // of the control plane behind a relay; 0 without
	clients time.Duration
}

func (d *deployment) usage() (u usage, err error) {
	if u.clients, err = server.OwnCPU(); err != nil {
		return u, err
	}
	if u.server, err = d.server.CPU(); err != nil || d.plane == d.server {
		return u, err
	}
	u.plane, err = d.plane.CPU()
	return u, err
}

// using tells what the servers and clients used for something, all that it leads to
// included, unless it was given up.
func (d *deployment) using(ctx context.Context, something func() error) (u usage, err error) {
	profiles, err := d.profile(ctx)
	if err != nil {
		return usage{}, err
	}
	defer func() { err = errors.Join(err, profiles.close()) }()
	before, err := d.usage()
	if err != nil {
		return usage{}, err
	}
	if err := something(); err != nil {
		return usage{}, err
	}
	if !d.cut {
		if err := d.quiet(ctx); err != nil {
			return usage{}, err
		}
	}
	after, err := d.usage()
	return usage{after.server - before.server, after.plane - before.plane, after.clients - before.clients}, err
}

// resident is the server's resident memory after it gave back what it does not need.
func (d *deployment) resident() (int, error) {
	if err := d.server.Free(); err != nil {
		return 0, err
	}
	m, err := d.server.Memory()
	return m.Resident, err
}
