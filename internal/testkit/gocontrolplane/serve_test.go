package gocontrolplane

import (
	"errors"
	"net"
	"syscall"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// A crash with a state that changes meanwhile, and RES-12 from the server's side.
func TestRestart(t *testing.T) {
	for kind, c := range kinds() {
		t.Run(kind, func(t *testing.T) {
			started(t, c)
			kept := set(t, c, "kept", cluster("kept", "1"))
			old := set(t, c, "changed", cluster("changed", "1"))
			removed := set(t, c, "removed", cluster("removed", "1"))
			client := connect(t, c)
			client.subscribe(cds, wildcard)
			client.expect(cds, map[string]string{"kept": kept, "changed": old, "removed": removed})

			address := c.Addr()
			c.Stop()
			if _, err := client.stream.Recv(); status.Code(err) != codes.Unavailable {
				t.Errorf("the stream ended with %v, expected UNAVAILABLE", err)
			}
			if _, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("a connection while it is stopped gave %v, expected a refusal", err)
			}
			if n := len(c.Stats().Streams); n != 0 {
				t.Errorf("%d streams are open after Stop", n)
			}
			changed := set(t, c, "changed", cluster("changed", "2"))
			remove(t, c, cds, "removed")

			if err := c.Restart(deadline(t)); err != nil {
				t.Fatal(err)
			}
			if c.Addr() != address {
				t.Errorf("it came back on %s and not on %s", c.Addr(), address)
			}
			client = connect(t, c)
			client.send(&discoveryv3.DeltaDiscoveryRequest{
				TypeUrl: cds, ResourceNamesSubscribe: []string{wildcard},
				InitialResourceVersions: map[string]string{"kept": kept, "changed": old, "removed": removed},
			})
			client.expect(cds, map[string]string{"changed": changed}, "removed")
		})
	}
}

// While a control plane is stopped its port goes to nobody who asks for any.
func TestStoppedControlPlaneKeepsItsPort(t *testing.T) {
	c := started(t, New())
	if c.port == nil {
		t.Skip("ports cannot be kept on this system")
	}
	c.Stop()
	own := c.Addr()
	other, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for range 2000 {
		conn, err := net.Dial("tcp", other.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if conn.LocalAddr().String() == own {
			t.Error("its port was given to a connection")
		}
		conn.(*net.TCPConn).SetLinger(0)
		conn.Close()
	}
	if err := c.Restart(deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func TestStartTwice(t *testing.T) {
	c := started(t, New())
	if err := c.Start(t.Context(), "127.0.0.1:0"); !errors.Is(err, errStarted) {
		t.Errorf("the second Start gave %v", err)
	}
	taken := New()
	if err := taken.Start(t.Context(), c.Addr()); err == nil {
		t.Error("two control planes share an address")
		taken.Close()
	}
	c.Stop()
	c.Stop()
}
