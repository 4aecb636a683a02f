package integration

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// restored are the names that the tests of restarts expect on the disk, of each type.
var restored = map[string][]string{
	clusterType:  {"c1", "c2", "c3"},
	endpointType: {"c1", "c2"},
	listenerType: {"l1"},
	routeType:    {"r1"},
}

// restoredPlane has them, and a secret.
func restoredPlane(t *testing.T) *testPlane {
	t.Helper()
	p := newPlane(t)
	for typeURL, names := range restored {
		for _, n := range names {
			p.set(typeURL, n, typeURL == clusterType || typeURL == listenerType)
		}
	}
	p.set(secretType, "hush-hush", false)
	return p
}

// asksForAll subscribes to all that was restored, and to the secret.
func asksForAll(c xdsClient) {
	c.subscribe(clusterType, []string{"*"}, nil)
	c.subscribe(endpointType, restored[endpointType], nil)
	c.subscribe(listenerType, []string{"*"}, nil)
	c.subscribe(routeType, restored[routeType], nil)
	c.subscribe(secretType, []string{"hush-hush"}, nil)
}

func awaitRestored(t *testing.T, c *holdings) {
	t.Helper()
	for typeURL, names := range restored {
		c.awaitHolding(t, typeURL, names...)
	}
}

// cachedIn has a relay keep snapshots in a folder.
func cachedIn(dir string, api config.APIType) func(*config.Config) {
	return func(c *config.Config) {
		c.Cache.Dir = dir
		c.Upstreams[0].APIType = api
	}
}

// A relay that is restarted while its control plane is away serves everybody: who holds something
// already is sent nothing, and who comes new gets all but secrets. When the control plane is back,
// everybody gets what changed.
func TestRestart_SUR1_OPS6(t *testing.T) {
	for _, api := range []config.APIType{"AGGREGATED_DELTA_GRPC", "AGGREGATED_GRPC", "DELTA_GRPC"} {
		for _, v := range []variant{deltaADS, sotwADS, sotw} {
			t.Run(fmt.Sprintf("%s %s", api, v.name), func(t *testing.T) { testRestart(t, api, v) })
		}
	}
}

func testRestart(t *testing.T, api config.APIType, v variant) {
	t.Helper()
	p, dir := restoredPlane(t), filepath.Join(t.TempDir(), "cache")
	relay := startRelay(t, cachedIn(dir, api), p.addr)
	warm := newVariantClient(t, v, relay.address(v), "warm")
	if err := warm.connect(true); err != nil {
		t.Fatal(err)
	}
	asksForAll(warm)
	awaitRestored(t, warm.common())
	warm.common().awaitHolding(t, secretType, "hush-hush")
	warm.disconnect()
	relay.stop()
	p.stop()
	keepsNoSecret(t, dir)

	relay = startRelayAt(t, ports.Again(t, relay.addr), ports.Again(t, relay.rest), cachedIn(dir, api), p.addr)
	if err := warm.connect(true); err != nil {
		t.Fatal(err)
	}
	fresh := newVariantClient(t, v, relay.address(v), "fresh")
	if err := fresh.connect(true); err != nil {
		t.Fatal(err)
	}
	asksForAll(fresh)
	awaitRestored(t, fresh.common())
	if len(fresh.common().all(secretType)) > 0 {
		t.Error("OPS-6: a secret was on the disk")
	}
	for typeURL := range restored {
		if n := warm.common().count(typeURL); n > 0 && (!v.sotw || fullState[typeURL]) { // WARM-2
			t.Errorf("SUR-1: a client that holds everything got %d responses of %s", n, typeURL)
		}
	}
	if code, page := relay.get(t, "/metrics"); code != 200 || strings.Contains(page, `xdsrelay_cache_restored_resources{upstream="plane-0"} 0`+"\n") {
		t.Error("restored resources are not counted")
	}
	if _, page := relay.get(t, "/resources"); !strings.Contains(page, "restored_as_of") {
		t.Error("restored resources are not marked")
	}

	p.set(clusterType, "c1", true)
	p.unset(clusterType, "c3")
	p.set(endpointType, "c2", false)
	p.restart(t)
	for _, c := range []*holdings{warm.common(), fresh.common()} {
		for _, typeURL := range []string{clusterType, endpointType, secretType} {
			same := func() bool { return maps.Equal(c.payloads(typeURL), p.payloads(typeURL, c.wanted(typeURL))) }
			if !c.happens(same) {
				t.Fatalf("client %s holds %q of %s, want %q", c.node, c.payloads(typeURL), typeURL, p.payloads(typeURL, c.wanted(typeURL)))
			}
		}
	}
	if faults := append(warm.common().found(), fresh.common().found()...); len(faults) > 0 {
		t.Errorf("faults: %q", faults)
	}
	relay.consistent(t)
}

// keepsNoSecret looks for the secret in every file.
func keepsNoSecret(t *testing.T, dir string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(files) == 0 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(data, []byte("hush-hush")) {
			t.Errorf("OPS-6: %s has the secret", f)
		}
	}
}

// Two relays never share a folder, and a file that is not a snapshot keeps none from starting.
func TestRestartFolder_SUR1(t *testing.T) {
	p, dir := restoredPlane(t), t.TempDir()
	relay := startRelay(t, cachedIn(dir, "AGGREGATED_DELTA_GRPC"), p.addr)
	c := joined(t, relay, "client")
	asksForAll(c)
	awaitRestored(t, c.common())
	if err := newRelayError(t, cachedIn(dir, "AGGREGATED_DELTA_GRPC"), p.addr); err == nil || !strings.Contains(err.Error(), "another process holds the lock") {
		t.Errorf("a second relay in the same folder: %v", err)
	}
	relay.stop()
	files, err := filepath.Glob(filepath.Join(dir, "*.snapshot"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 1
	if err := os.WriteFile(files[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	p.stop()
	relay = startRelay(t, cachedIn(dir, "AGGREGATED_DELTA_GRPC"), p.addr)
	c = joined(t, relay, "client")
	asksForAll(c)
	aside := strings.TrimSuffix(files[0], ".snapshot") + ".corrupt"
	waitFor(t, "the corrupt file to be put aside", func() bool {
		_, err := os.Stat(aside)
		_, page := relay.get(t, "/metrics")
		return err == nil && strings.Contains(page, "xdsrelay_snapshot_corrupt_files_total 1\n")
	})
	p.restart(t)
	c.awaitHolding(t, clusterType, restored[clusterType]...)
	relay.consistent(t)
}
