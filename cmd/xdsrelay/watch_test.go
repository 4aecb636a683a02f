package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"

	clusterv3 "github.com/envoyproxy/go-control-plane/envoy/config/cluster/v3"
	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	cachev3 "github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	serverv3 "github.com/envoyproxy/go-control-plane/pkg/server/v3"
	"github.com/xdsrelay/xdsrelay/cmd/internal/cli"
	"github.com/xdsrelay/xdsrelay/internal/testkit/pki"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/protobuf/types/known/durationpb"
)

func cluster(name string, seconds int64) *clusterv3.Cluster {
	return &clusterv3.Cluster{Name: name, ConnectTimeout: &durationpb.Duration{Seconds: seconds}}
}

// controlPlane serves a cache on a port of this machine and gives its address.
func controlPlane(t *testing.T, cache cachev3.Cache, callbacks serverv3.Callbacks, options ...grpc.ServerOption) string {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer(options...)
	discoveryv3.RegisterAggregatedDiscoveryServiceServer(g, serverv3.NewServer(context.Background(), cache, callbacks))
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Serve(lis) })
	t.Cleanup(func() {
		g.Stop()
		wg.Wait()
	})
	return lis.Addr().String()
}

// until reads objects, one on each line, until one has what is wanted.
func until(t *testing.T, lines *bufio.Scanner, want map[string]string) map[string]any {
	t.Helper()
next:
	for lines.Scan() {
		object := make(map[string]any)
		if err := json.Unmarshal(lines.Bytes(), &object); err != nil {
			t.Fatalf("%s: %v", lines.Text(), err)
		}
		for key, value := range want {
			if fmt.Sprint(object[key]) != value {
				continue next
			}
		}
		return object
	}
	t.Fatalf("ended without %v", want)
	return nil
}

func TestWatch(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{
		"cart": cluster("cart", 1), "checkout": cluster("checkout", 1),
	}))
	nodes := make(chan string, 1)
	address := controlPlane(t, linear, serverv3.CallbackFuncs{
		StreamDeltaRequestFunc: func(_ int64, r *discoveryv3.DeltaDiscoveryRequest) error {
			select {
			case nodes <- r.Node.GetId():
			default:
			}
			return nil
		},
	})
	node := write(t, "bootstrap.yaml", "node: {id: test-node}\n") // as explain takes it
	lines, _, stop := background(t, "watch", address, "--type", "cds", "--node", node, "--output", "json", "--payload")
	until(t, lines, map[string]string{"event": "connected", "target": address})
	until(t, lines, map[string]string{"event": "response", "changes": "map[added:2]"})
	if id := <-nodes; id != "test-node" {
		t.Errorf("node %q", id)
	}
	if err := linear.UpdateResource("cart", cluster("cart", 2)); err != nil {
		t.Fatal(err)
	}
	changed := until(t, lines, map[string]string{"event": "changed", "name": "cart"})
	if got := fmt.Sprint(changed["payload"]); !strings.Contains(got, "connect_timeout:2s") {
		t.Errorf("payload %s", got)
	}
	if err := linear.DeleteResource("checkout"); err != nil {
		t.Fatal(err)
	}
	until(t, lines, map[string]string{"event": "removed", "name": "checkout"})
	if code := stop(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

func TestWatchOnce(t *testing.T) {
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	address := controlPlane(t, linear, nil)
	got := xdsrelay(t, "watch", address, "--type", "cds", "--name", "cart", "--once")
	if got.code != 0 || got.stderr != "" || !strings.Contains(got.stdout, "cds  + cart  ") || strings.Contains(got.stdout, "\x1b") {
		t.Errorf("%+v", got)
	}
	got = xdsrelay(t, "watch", address, "--type", "cds", "--name", "none", "--once", "--timeout", "50ms")
	// go-control-plane's linear cache says nothing of what it does not have.
	want := "error: no complete answer for cds within 50ms\nhint: some servers"
	if got.code != cli.ExitFailure || !strings.HasPrefix(got.stderr, want) {
		t.Errorf("%+v", got)
	}
}

func TestWatchFails(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := lis.Addr().String()
	_ = lis.Close()
	got := xdsrelay(t, "watch", closed, "--type", "cds", "--once")
	if got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, "connection refused") ||
		!strings.Contains(got.stderr, "hint: is there a server at this address, and does it need TLS (--tls)?") {
		t.Errorf("nobody listens: %+v", got)
	}

	g := grpc.NewServer()
	if lis, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = g.Serve(lis) })
	defer wg.Wait()
	defer g.Stop()
	got = xdsrelay(t, "watch", lis.Addr().String(), "--type", "cds")
	if got.code != cli.ExitFailure || !strings.Contains(got.stderr, "hint: is this an xDS server that speaks AGGREGATED_DELTA_GRPC? --api-type has other variants") {
		t.Errorf("no xDS server: %+v", got)
	}
}

func TestWatchTLS(t *testing.T) {
	ca, dir := pki.NewAuthority(t, "ca"), pki.NewFolder(t)
	linear := cachev3.NewLinearCache(resource.ClusterType, cachev3.WithInitialResources(map[string]types.Resource{"cart": cluster("cart", 1)}))
	address := controlPlane(t, linear, nil, grpc.Creds(credentials.NewTLS(&tls.Config{
		Certificates: []tls.Certificate{ca.Server("xds.example.com")}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: ca.Pool(),
	})))
	cert, key := dir.PutPair("client", ca.Client("client"))
	args := []string{"watch", address, "--type", "cds", "--once", "--ca-file", dir.PutCA("ca", ca), "--cert-file", cert, "--key-file", key}
	if got := xdsrelay(t, append(args, "--server-name", "xds.example.com")...); got.code != 0 || !strings.Contains(got.stdout, "+ cart") {
		t.Errorf("%+v", got)
	}
	if got := xdsrelay(t, args...); got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, "hint: the server's certificate is for another name") {
		t.Errorf("without the server's name: %+v", got)
	}
	hintsAtTLSFlags(t, args, dir.PutCA("other", pki.NewAuthority(t, "other")))
	const add, leave = "hint: the server seems to have TLS: add --tls", "hint: the server has no TLS: leave out --tls"
	if got := xdsrelay(t, args[:5]...); got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, add) {
		t.Errorf("without TLS: %+v", got)
	}
	got := xdsrelay(t, "watch", address, "--type", "cds", "--timeout", "3s")
	if got.code != 0 || strings.Count(got.stdout, "no connection, next try in") < 2 || strings.Count(got.stdout, add) != 1 {
		t.Errorf("without TLS, for ever: %+v", got)
	}
	if got := xdsrelay(t, "watch", controlPlane(t, linear, nil), "--tls", "--type", "cds", "--once"); got.code != cli.ExitUnreachable || !strings.Contains(got.stderr, leave) {
		t.Errorf("with TLS: %+v", got)
	}
}
