package stateclient

import (
	"context"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/controlplane"
	"github.com/xdsrelay/xdsrelay/internal/deltaclient"
	"github.com/xdsrelay/xdsrelay/internal/xdsclient"
)

// variant makes a client of a control plane in one of the variants.
type variant struct {
	name  string
	plane func() *controlplane.ControlPlane
	dial  func(t *testing.T, c *controlplane.ControlPlane, o xdsclient.Options) *xdsclient.Client
	// says: a removal of endpoints can be said.
	says bool
}

func variants() []variant {
	linear := func() *controlplane.ControlPlane { return controlplane.New() }
	state := func(perType bool) func(*testing.T, *controlplane.ControlPlane, xdsclient.Options) *xdsclient.Client {
		return func(t *testing.T, c *controlplane.ControlPlane, o xdsclient.Options) *xdsclient.Client {
			t.Helper()
			o.PerType = perType
			return New(connect(t, c), o)
		}
	}
	return []variant{
		{"VAR-3 SotW ADS, linear", linear, state(false), false},
		{"VAR-3 SotW ADS, snapshot", controlplane.NewSnapshot, state(false), false},
		{"VAR-1 SotW per type, linear", linear, state(true), false},
		{"VAR-1 SotW per type, snapshot", controlplane.NewPlainSnapshot, state(true), false},
		{"VAR-2 incremental per type", linear, func(t *testing.T, c *controlplane.ControlPlane, o xdsclient.Options) *xdsclient.Client {
			t.Helper()
			o.PerType = true
			return deltaclient.New(connect(t, c), o)
		}, true},
		{"VAR-5 REST", controlplane.NewPlainSnapshot, func(t *testing.T, c *controlplane.ControlPlane, o xdsclient.Options) *xdsclient.Client {
			t.Helper()
			server := httptest.NewServer(c.REST())
			t.Cleanup(server.Close)
			client := &http.Client{Transport: &http.Transport{}}
			t.Cleanup(client.CloseIdleConnections)
			o.PollInterval = time.Millisecond
			return NewREST(client, server.URL, o)
		}, false},
	}
}

func connect(t *testing.T, c *controlplane.ControlPlane) *grpc.ClientConn {
	t.Helper()
	conn, err := xdsclient.Dial("passthrough:///"+c.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestVariants takes a client of each variant through a control plane's life.
func TestVariants(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			plane := v.plane()
			if err := plane.Start(ctx, "127.0.0.1:0"); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(plane.Close)
			set := func(typeURL, name, content string) {
				t.Helper()
				if _, err := plane.UpdateResource(name, payload(typeURL, name, content)); err != nil {
					t.Fatal(err)
				}
			}
			set(clusterType, "a", "1")
			set(clusterType, "b", "1")
			set(endpointType, "e", "1")

			c := v.dial(t, plane, xdsclient.Options{Keep: xdsclient.KeepDigests})
			c.Subscribe(clusterType)
			c.Subscribe(endpointType, "e", "f")
			done := make(chan error)
			follow, stop := context.WithCancel(ctx)
			go func() {
				done <- c.Follow(follow, xdsclient.Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond}, nil)
			}()
			defer func() { stop(); <-done }()
			await := func(what string, clusters, endpoints []string) {
				t.Helper()
				names := func(typeURL string) []string { return slices.Sorted(maps.Keys(c.Versions(typeURL))) }
				if c.Wait(ctx, func(*xdsclient.Client) bool {
					return slices.Equal(names(clusterType), clusters) && slices.Equal(names(endpointType), endpoints)
				}) != nil {
					t.Fatalf("%s: holds %q and %q, want %q and %q", what, names(clusterType), names(endpointType), clusters, endpoints)
				}
			}
			digest := func() string { h, _ := c.Get(clusterType, "a"); return h.Digest }

			await("the first state", []string{"a", "b"}, []string{"e"})
			before := digest()
			set(clusterType, "a", "2")
			if c.Wait(ctx, func(*xdsclient.Client) bool { return digest() != before }) != nil {
				t.Fatal("a changed resource is not seen")
			}
			set(endpointType, "f", "1")
			await("SUB-9 a name that appears", []string{"a", "b"}, []string{"e", "f"})
			set(endpointType, "g", "1")
			c.Subscribe(endpointType, "g")
			await("SUB-5 a name more", []string{"a", "b"}, []string{"e", "f", "g"})
			c.Unsubscribe(endpointType, "g")
			await("a name less", []string{"a", "b"}, []string{"e", "f"})

			plane.Stop()
			if err := plane.DeleteResource(clusterType, "b"); err != nil {
				t.Fatal(err)
			}
			if err := plane.DeleteResource(endpointType, "f"); err != nil {
				t.Fatal(err)
			}
			set(clusterType, "c", "1")
			if err := plane.Restart(ctx); err != nil {
				t.Fatal(err)
			}
			left := []string{"e", "f"} // RES-3
			if v.says {
				left = []string{"e"}
			}
			await("RES-8 after a restart", []string{"a", "c"}, left)
		})
	}
}

func TestUnimplemented(t *testing.T) {
	plane := controlplane.New(clusterType) // no other type
	if err := plane.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	c := New(connect(t, plane), xdsclient.Options{PerType: true})
	c.Subscribe(endpointType, "e")
	if err := c.Run(t.Context()); status.Code(err) != codes.Unknown {
		t.Errorf("a type without a cache: %v", err)
	}
}
