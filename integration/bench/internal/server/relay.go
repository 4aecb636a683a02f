//go:build linux

package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/integration/bench/internal/fleet"
	"github.com/xdsrelay/xdsrelay/relay"
)

// relayServer is a whole relay, as the command serve runs it.
type relayServer struct {
	xds, rest, admin net.Listener // rest: nil unless strangers come
	mutual           *mutual      // so is this
	peers            net.Listener // so is this
	cancel           context.CancelFunc
	running          sync.WaitGroup
	err              error  // of Run, once running is done
	snapshots        string // the relay's own folder; "": none
}

// openRelay starts a relay. If strangers come, there are a port for polls and one with mutual TLS, whose certificates
// are in a folder.
func openRelay(ctx context.Context, o *RelayOptions, folder string) (_ backend, err error) {
	r := &relayServer{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.drop())
		}
	}()
	for _, lis := range []*net.Listener{&r.xds, &r.admin} {
		if *lis, err = listen(ctx); err != nil {
			return nil, err
		}
	}
	if o.Strangers {
		if r.rest, err = listen(ctx); err != nil {
			return nil, err
		}
		if r.mutual, err = openMutual(ctx, folder); err != nil {
			return nil, err
		}
		if r.peers, err = listen(ctx); err != nil {
			return nil, err
		}
	}
	cfg := r.config(o)
	if o.Cache != "" {
		if r.snapshots, err = os.MkdirTemp(o.Cache, "relay-"); err != nil {
			return nil, err
		}
		cfg.Cache.Dir, cfg.Cache.SnapshotEvery = r.snapshots, cmp.Or(config.Duration(o.Every), cfg.Cache.SnapshotEvery)
	}
	if err := cfg.Validate(); err != nil {
		return nil, fmt.Errorf("the relay's configuration: %w", err)
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: cfg.Log.Level.Slog()}))
	server, err := relay.New(cfg, relay.Options{Log: log, Version: "bench"})
	if err != nil {
		return nil, err
	}
	if o.Strangers {
		server.ServeREST(r.rest)
		server.ServePeers(r.peers)
		if err := server.ServeListener(securedListener, r.mutual.lis); err != nil {
			return nil, err
		}
	}
	ctx, r.cancel = context.WithCancel(ctx)
	force := make(chan struct{})
	close(force)
	r.running.Go(func() { r.err = server.Run(ctx, force, r.xds, r.admin) })
	return r, nil
}

// securedListener is the name of the listener with mutual TLS.
const securedListener = "secured"

// config is the default configuration, but for nine things: all clients share one scope, which is what a relay
// is for, and their address may have all connections; if strangers come, only the clients of a fleet share, no
// address may have all, and there are a listener with mutual TLS and a port for peers; a collection counts as complete a second after
// its first answer; the end is not spread over time; there may be access rules, and snapshots; and warnings are
// not logged, such as the one that clients who share differ in their node's id.
func (r *relayServer) config(o *RelayOptions) *config.Config {
	cfg := config.Default()
	if o.Strangers {
		cfg.Aggregation.Rules = []config.Rule{{Name: "fleet", Match: fmt.Sprintf("node.cluster == %q", fleet.Cluster), Scope: []string{}}}
		cert, key, clients := r.mutual.files()
		l := config.DefaultListener()
		l.Name, l.Listen = securedListener, r.mutual.lis.Addr().String()
		l.TLS = &config.ServerTLS{CertFile: cert, KeyFile: key, ClientCAFile: clients}
		cfg.Server.Listeners = []config.Listener{l}
		cfg.Peers.Listen, cfg.Peers.Identities = r.peers.Addr().String(), []string{"relay"}
		cfg.Peers.TLS = config.PeersTLS{CertFile: cert, KeyFile: key, CAFile: cert} // nobody has a certificate of it
	} else {
		cfg.Aggregation.Otherwise = config.Share
		cfg.Limits.Share = 100
	}
	cfg.Access.Rules = accessRules(o.Access)
	cfg.Server.Drain = 0
	cfg.Log.Level = config.LevelError
	u := config.DefaultUpstream()
	u.Name, u.Default, u.Endpoints = "plane", true, [][]string{{o.Upstream}}
	u.Settle = config.Duration(time.Second)
	cfg.Upstreams = []config.Upstream{u}
	return cfg
}

// drop closes and removes all of a relay that does not run.
func (r *relayServer) drop() (err error) {
	for _, lis := range []net.Listener{r.xds, r.admin, r.rest, r.peers} {
		if lis != nil {
			err = errors.Join(err, lis.Close())
		}
	}
	if r.mutual != nil {
		err = errors.Join(err, r.mutual.lis.Close())
	}
	return errors.Join(err, r.remove())
}

// remove removes what the relay has on the disk.
func (r *relayServer) remove() error {
	if r.snapshots == "" {
		return nil
	}
	return os.RemoveAll(r.snapshots)
}

// accessForms are rules as fleets have them: by cluster, by the form of IDs, by metadata, and by where a
// client is and came from. None of them is for a client of the bench, which has no identity.
var accessForms = []string{
	`node.cluster == "team-%d" && type in [lds, cds, sds] && !node.id.matches("^gateway-%[1]d-[0-9]+$")`,
	`type in [lds, cds, eds] && node.id.matches("^gateway-%d-[0-9]+$")`,
	`has(node.metadata.quarantine_%d) && node.metadata.quarantine_%[1]d != "no"`,
	`node.id.startsWith("team-%d/") && node.id != "team-%[1]d/" + node.cluster`,
	`node.locality.region in ["r%d", "s%[1]d"] || node.locality.zone == "z%[1]d"`,
	`node.id == "legacy-%d" || node.id.endsWith("-legacy-%[1]d")`,
	`listener == "test-%d" && node.cluster != "test"`,
}

// accessRules are n rules, all of which are asked for a stream and a type: the last one allows
// everything. They do not look at names, as most rules of a fleet.
func accessRules(n int) []config.AccessRule {
	var rules []config.AccessRule
	for i := range n {
		rules = append(rules, config.AccessRule{
			Name: fmt.Sprint("team-", i), Effect: config.Deny, Match: fmt.Sprintf(accessForms[i%len(accessForms)], i),
		})
	}
	if n > 0 {
		rules[n-1] = config.AccessRule{Name: "everybody", Match: "true", Effect: config.Allow}
	}
	return rules
}

// Addr implements backend.
func (r *relayServer) Addr() string { return r.xds.Addr().String() }

// Admin implements backend.
func (r *relayServer) Admin() string { return r.admin.Addr().String() }

// Peers implements backend.
func (r *relayServer) Peers() string {
	if r.peers == nil {
		return ""
	}
	return r.peers.Addr().String()
}

// REST implements backend.
func (r *relayServer) REST() string {
	if r.rest == nil {
		return ""
	}
	return r.rest.Addr().String()
}

// Mutual implements backend.
func (r *relayServer) Mutual() string { return r.mutual.address() }

// Update implements backend.
func (*relayServer) Update(string, int, int) error { return errStateless }

// Stats implements backend.
func (*relayServer) Stats() Stats { return Stats{} }

// Close implements backend.
func (r *relayServer) Close() error {
	r.cancel()
	r.running.Wait()
	return errors.Join(r.err, r.remove())
}
