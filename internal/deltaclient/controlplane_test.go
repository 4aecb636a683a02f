package deltaclient

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// controlPlane is go-control-plane's server over a cache, with the requests
// that came in. It is ended by the test's server, not by a context.
func controlPlane(cache cachev3.Cache) (serverv3.Server, func() []string) {
	var mu sync.Mutex
	var requests []string
	server := serverv3.NewServer(context.Background(), cache, serverv3.CallbackFuncs{
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			mu.Lock()
			defer mu.Unlock()
			requests = append(requests, short(r))
			return nil
		},
	})
	return server, func() []string {
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		all := requests
		requests = nil
		return all
	}
}

// digests gives the names that a client holds and the payloads' digests.
func digests(c *xdsclient.Client, typeURL string) map[string]string {
	all := make(map[string]string)
	for name := range c.Versions(typeURL) {
		h, _ := c.Get(typeURL, name)
		all[name] = h.Digest
	}
	return all
}

func TestSnapshotCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		snapshots := cachev3.NewSnapshotCache(true, cachev3.IDHash{}, nil)
		set := func(version string, clusters ...types.Resource) {
			snapshot, err := cachev3.NewSnapshot(version, map[string][]types.Resource{clusterType: clusters})
			if err != nil {
				t.Fatal(err)
			}
			if err := snapshots.SetSnapshot(t.Context(), "n", snapshot); err != nil {
				t.Fatal(err)
			}
		}
		set("1", cluster("a", 1), cluster("b", 1))
		server, requests := controlPlane(snapshots)
		rec := new(recorder)
		kinds := func() []string {
			var all []string
			for _, line := range rec.next() {
				var kind, name string
				_, _ = fmt.Sscan(line, &kind, &name)
				all = append(all, kind+" "+name)
			}
			slices.Sort(all)
			return all
		}
		c := New(serve(t, server), xdsclient.Options{Node: &corev3.Node{Id: "n"}, OnResponse: rec.record})
		c.Subscribe(clusterType)
		stop := running(t, c)
		expect(t, "requests", []string{"Cluster node=n", "Cluster ack=1"}, requests())
		expect(t, "VAR-4 changes", []string{"added a", "added b"}, kinds())

		set("2", cluster("a", 2), cluster("c", 1))
		expect(t, "RES-1 changes", []string{"added c", "changed a", "removed b"}, kinds())

		_ = stop()
		set("3", cluster("a", 3), cluster("d", 1))
		requests()
		stop = running(t, c)
		expect(t, "RES-12 changes after coming back", []string{"added d", "changed a", "removed c"}, kinds())

		c.Subscribe(endpointType, "none")
		expect(t, "held", 2, c.Len(clusterType))
		if err := stop(); err == nil {
			t.Error("Run returned nil")
		}
	})
}

func TestLinearCache(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		linear := cachev3.NewLinearCache(clusterType, cachev3.WithInitialResources(map[string]types.Resource{
			"a": cluster("a", 1), "b": cluster("b", 1), "c": cluster("c", 1),
		}))
		server, requests := controlPlane(linear)
		c := New(serve(t, server), xdsclient.Options{Keep: xdsclient.KeepDigests})
		c.Subscribe(clusterType, "a", "z")
		stop := running(t, c)
		expect(t, "requests", []string{"Cluster +a +z", "Cluster ack=1"}, requests())
		expect(t, "SUB-1 held", []string{"a"}, names(c))

		c.Subscribe(clusterType, "b")
		synctest.Wait()
		expect(t, "SUB-5 held", []string{"a", "b"}, names(c))
		if err := linear.UpdateResource("z", cluster("z", 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		expect(t, "SUB-9 held", []string{"a", "b", "z"}, names(c))
		c.Unsubscribe(clusterType, "a")
		synctest.Wait()
		expect(t, "held", []string{"b", "z"}, names(c))

		_ = stop()
		if err := linear.DeleteResource("b"); err != nil {
			t.Fatal(err)
		}
		running(t, c)
		expect(t, "RES-12 held after coming back", []string{"z"}, names(c))
	})
}

func names(c *xdsclient.Client) []string { return slices.Sorted(maps.Keys(c.Versions(clusterType))) }

// TestConvergence changes a cache at random while clients come, go and pause,
// and compares what they hold in the end.
func TestConvergence(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, seed))
			linear := cachev3.NewLinearCache(clusterType)
			server, _ := controlPlane(linear)
			conn := serve(t, server)
			var clients []*xdsclient.Client
			stops := make(map[*xdsclient.Client]func() error)
			for range 4 {
				c := New(conn, xdsclient.Options{Keep: xdsclient.KeepDigests})
				c.Subscribe(clusterType)
				clients = append(clients, c)
				stops[c] = running(t, c)
			}
			for range 200 {
				name := fmt.Sprint(random.IntN(20))
				c := clients[random.IntN(len(clients))]
				var err error
				switch random.IntN(6) {
				case 0, 1, 2:
					err = linear.UpdateResource(name, cluster(name, random.IntN(5)))
				case 3:
					err = linear.DeleteResource(name)
				case 4:
					if random.IntN(2) == 0 {
						c.Pause()
					} else {
						c.Resume()
					}
				case 5:
					_ = stops[c]()
					stops[c] = running(t, c)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			reference := New(conn, xdsclient.Options{Keep: xdsclient.KeepDigests})
			reference.Subscribe(clusterType)
			running(t, reference)
			for _, c := range clients {
				c.Resume()
			}
			synctest.Wait()
			expect(t, "resources", len(linear.GetResources()), reference.Len(clusterType))
			for i, c := range clients {
				expect(t, fmt.Sprintf("seed %d, client %d", seed, i), digests(reference, clusterType), digests(c, clusterType))
			}
		})
	}
}
