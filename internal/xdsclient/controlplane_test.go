package xdsclient

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/xdsrelay/xdsrelay/internal/testkit/gocontrolplane"
)

func connect(t *testing.T, c *gocontrolplane.ControlPlane) *grpc.ClientConn {
	t.Helper()
	conn, err := Dial("passthrough:///"+c.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// TestControlPlanes takes a client of each variant through a real control plane's life.
func TestControlPlanes(t *testing.T) {
	linear := func() *gocontrolplane.ControlPlane { return gocontrolplane.New() }
	for _, tt := range []struct {
		name    string
		form    Form
		perType bool
		plane   func() *gocontrolplane.ControlPlane
	}{
		{"VAR-4 incremental ADS, linear", Incremental, false, linear},
		{"VAR-4 incremental ADS, snapshot", Incremental, false, gocontrolplane.NewSnapshot},
		{"VAR-2 incremental per type", Incremental, true, linear},
		{"VAR-3 SotW ADS, linear", SotW, false, linear},
		{"VAR-3 SotW ADS, snapshot", SotW, false, gocontrolplane.NewSnapshot},
		{"VAR-1 SotW per type, linear", SotW, true, linear},
		{"VAR-1 SotW per type, snapshot", SotW, true, gocontrolplane.NewPlainSnapshot},
		{"VAR-5 REST", REST, true, gocontrolplane.NewPlainSnapshot},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			plane := tt.plane()
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

			server := httptest.NewServer(plane.REST())
			t.Cleanup(server.Close)
			transport := new(http.Transport)
			t.Cleanup(transport.CloseIdleConnections)
			c := New(Options{
				Form: tt.form, PerType: tt.perType, Conn: connect(t, plane), HTTP: &http.Client{Transport: transport}, URL: server.URL,
				KeepResources: true, PollInterval: time.Millisecond,
			})
			c.Subscribe(clusterType)
			c.Subscribe(endpointType, "e", "f")
			done := make(chan error)
			follow, stop := context.WithCancel(ctx)
			go func() { done <- c.Follow(follow, Backoff{Base: time.Millisecond, Max: 10 * time.Millisecond}, nil) }()
			defer func() { stop(); <-done }()
			await := func(what string, clusters, endpoints []string) {
				t.Helper()
				names := func(typeURL string) []string { return sorted(c.Versions(typeURL)) }
				if c.Wait(ctx, func(*Client) bool {
					return slices.Equal(names(clusterType), clusters) && slices.Equal(names(endpointType), endpoints)
				}) != nil {
					t.Fatalf("%s: holds %q and %q, want %q and %q", what, names(clusterType), names(endpointType), clusters, endpoints)
				}
			}
			digest := func() string { h, _ := c.Get(clusterType, "a"); return h.Resource.Digest() }

			await("the first state", []string{"a", "b"}, []string{"e"})
			before := digest()
			set(clusterType, "a", "2")
			if c.Wait(ctx, func(*Client) bool { return digest() != before }) != nil {
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
			if tt.form == Incremental {
				left = []string{"e"}
			}
			await("RES-8 RES-12 after a restart", []string{"a", "c"}, left)
		})
	}
}

func TestVAR1_typeWithoutACache(t *testing.T) {
	plane := gocontrolplane.New(clusterType) // no other type
	if err := plane.Start(t.Context(), "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(plane.Close)
	c := New(Options{Form: SotW, Conn: connect(t, plane), PerType: true})
	c.Subscribe(endpointType, "e")
	if err := c.Run(t.Context()); status.Code(err) != codes.Unknown {
		t.Errorf("a type without a cache: %v", err)
	}
}
