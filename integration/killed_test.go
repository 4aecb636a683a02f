package integration

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/xdsrelay/xdsrelay/cache/snapshot"
	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/files"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
	"github.com/xdsrelay/xdsrelay/relay"
)

// How large the tests are. They report times, and assert none.
var (
	killedClients   = flag.Int("killed.clients", 50, "clients of the relay that TestKilled kills")
	killedResources = flag.Int("killed.resources", 1000, "resources of 1 KiB that TestKilledFull restores")
)

// relayFile has the test program be a relay with this configuration, and nothing else: a process
// that can be killed.
const relayFile = "XDSRELAY_TEST_RELAY"

// runRelay runs the relay of a configuration file until its input ends.
func runRelay(file string) error {
	cfg, err := config.Load(file, nil, nil)
	if err != nil {
		return err
	}
	xds, err := net.Listen("tcp", cfg.Server.Listen)
	if err != nil {
		return err
	}
	admin, err := net.Listen("tcp", cfg.Admin.Listen)
	if err != nil {
		return err
	}
	opts := relay.Options{Log: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	if cfg.Limits.Memory != config.AutoMemory { // as the program does it
		opts.Memory = int64(float64(cfg.Limits.Memory) * 0.9)
		debug.SetMemoryLimit(cmp.Or(opts.Memory, math.MaxInt64))
	}
	r, err := relay.New(cfg, opts)
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	return r.Run(ctx, nil, xds, admin)
}

// killable is a relay in a process of its own, with mutual TLS and snapshots.
type killable struct {
	addr, dir, file string
	fleet           *pki.Authority
	process         *process
}

func startKillable(t *testing.T, p *testPlane) *killable {
	t.Helper()
	files, fleet := pki.NewFolder(t), pki.NewAuthority(t, "fleet")
	k := &killable{addr: freeAddress(t), dir: filepath.Join(t.TempDir(), "cache"), fleet: fleet}
	cert, key := files.PutPair("relay", fleet.Server(relayHost))
	k.file = filepath.Join(t.TempDir(), "relay.yaml")
	text := fmt.Sprintf(`
server: {listen: %q, drain: 1s, tls: {cert_file: %q, key_file: %q, client_ca_file: %q}}
admin: {listen: %q}
aggregation: {otherwise: share}
access: {rules: [{name: secrets, match: type == sds, effect: allow, secrets: true}]}
cache: {dir: %q, snapshot_every: 1s}
upstreams: [{name: plane, default: true, endpoints: [%q], max_receive_size: 512MiB}]
`, k.addr, cert, key, files.PutCA("fleet", fleet), freeAddress(t), k.dir, p.addr)
	if err := os.WriteFile(k.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	k.start(t)
	return k
}

// freeAddress is an address that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	lis := ports.Listen(t)
	defer lis.Close()
	return lis.Addr().String()
}

func (k *killable) start(t *testing.T) {
	t.Helper()
	p, err := startProcess([]string{relayFile + "=" + k.file}, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	k.process = p
	p.logOnFailure(t)
	t.Cleanup(p.close)
}

// client makes a client with a certificate.
func (k *killable) client(t *testing.T, node string, shown tls.Certificate) *client {
	t.Helper()
	return newClient(t, k.addr, node, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{
		RootCAs: k.fleet.Pool(), ServerName: relayHost, NextProtos: []string{"h2"}, Certificates: []tls.Certificate{shown},
	})))
}

// kept is the number of resources in the snapshots.
func (k *killable) kept() (n int) {
	_ = snapshot.Inspect(files.OS{}, k.dir, func(c *snapshot.Contents) { // there may be no folder yet
		if c.Image != nil {
			for _, table := range c.Image.Tables {
				n += len(table.Resources)
			}
		}
	})
	return n
}

// size is that of all snapshots, in bytes: what one change costs, at most every
// cache.snapshot_every.
func (k *killable) size(t *testing.T) (n int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(k.dir, "*.snapshot"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// everyone runs f for each client, at the same time.
func everyone(clients []*client, f func(*client) error) error {
	var wg sync.WaitGroup
	errs := make([]error, len(clients))
	for i, c := range clients {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// TestKilled kills a relay under a fleet with mutual TLS, while its control plane is away, and
// starts it again: everybody is served, nobody is sent anything again, and nothing is removed.
func TestKilled_SUR1_OPS6(t *testing.T) {
	p := restoredPlane(t)
	const extra = "extra" // nobody but the keeper has it before
	p.set(endpointType, extra, false)
	k := startKillable(t, p)
	shown := k.fleet.Client("client")
	keeper := k.client(t, "keeper", shown)
	all := []*client{keeper}
	for i := range *killedClients {
		all = append(all, k.client(t, fmt.Sprint("client-", i), shown))
	}
	clients := all[1:]
	connect := func(c *client) error { return c.connect(true) }
	if err := everyone(all, connect); err != nil {
		t.Fatal(err)
	}
	keeper.subscribe(endpointType, []string{extra}, nil)
	keeper.awaitHolding(t, endpointType, extra)
	for _, c := range clients {
		asksForAll(c)
	}
	for _, c := range clients {
		awaitRestored(t, c.common())
		c.awaitHolding(t, secretType, "hush-hush")
	}
	resources := 1
	for _, names := range restored {
		resources += len(names)
	}
	waitFor(t, "a snapshot with everything", func() bool { return k.kept() == resources })

	k.process.crash()
	p.stop()
	keepsNoSecret(t, k.dir)
	for _, c := range all {
		c.await(t, "the end of the stream", func() bool { return !c.connected() })
		c.disconnect()
	}
	k.start(t)
	began := time.Now()
	if err := everyone(clients, func(c *client) error {
		if err := c.connect(true); err != nil {
			return err
		}
		c.subscribe(endpointType, []string{extra}, nil)
		if !c.happens(func() bool { return c.payloads(endpointType)[extra] != "" }) {
			return fmt.Errorf("client %s was not served: %w", c.node, c.ended())
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d clients were served %v after the start of the process", len(clients), time.Since(began))
	for _, c := range clients {
		for _, r := range c.responses() {
			if len(r.RemovedResources) > 0 || len(r.Resources) != 1 || r.Resources[0].Name != extra {
				if len(r.ResourceErrors) == 0 { // of the secret
					t.Errorf("client %s was sent %d resources and %d removals of %s", c.node, len(r.Resources), len(r.RemovedResources), r.TypeUrl)
				}
			}
		}
	}
	fresh := k.client(t, "fresh", shown)
	if err := fresh.connect(true); err != nil {
		t.Fatal(err)
	}
	asksForAll(fresh)
	awaitRestored(t, fresh.common())
	if len(fresh.all(secretType)) > 0 {
		t.Error("OPS-6: a secret was on the disk")
	}
}

// TestKilledFull restores many resources, and reports when a new client has all of them.
func TestKilledFull_SUR1(t *testing.T) {
	p := newPlane(t)
	p.fill(*killedResources)
	k := startKillable(t, p)
	shown := k.fleet.Client("client")
	asks := func(node string) *client {
		c := k.client(t, node, shown)
		c.forgets = true
		if err := c.connect(true); err != nil {
			t.Fatal(err)
		}
		c.subscribe(endpointType, []string{"*"}, nil)
		waitFor(t, "all resources", func() bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return len(c.holds[endpointType]) == *killedResources
		})
		return c
	}
	first := asks("first")
	waitFor(t, "a snapshot with everything", func() bool { return k.kept() == *killedResources })
	k.process.crash()
	p.stop()
	first.disconnect()
	const everyHalfMinute = 120 // writes an hour
	t.Logf("a snapshot has %d bytes: %.1f GB an hour in steady churn", k.size(t), float64(k.size(t)*everyHalfMinute)/1e9)
	began := time.Now()
	k.start(t)
	asks("fresh")
	t.Logf("%d resources were served %v after the start of the process", *killedResources, time.Since(began))
}
