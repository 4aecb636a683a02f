package ports_test

import (
	"net"
	"strconv"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

func TestListen(t *testing.T) {
	seen := make(map[string]bool)
	for range 100 {
		lis := ports.Listen(t)
		addr := lis.Addr().String()
		if seen[addr] {
			t.Errorf("%s was given twice", addr)
		}
		seen[addr] = true
		_ = lis.Close()
		again := ports.Again(t, addr)
		if got := again.Addr().String(); got != addr {
			t.Errorf("listens on %s, want %s", got, addr)
		}
		_ = again.Close()
	}
}

func TestFree(t *testing.T) {
	if a, b := ports.Free(t), ports.Free(t); a == b {
		t.Errorf("port %d was given twice", a)
	}
}

// A port stays its test's while nobody listens: another process that looks for one finds its
// claim.
func TestClaim(t *testing.T) {
	addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports.Free(t)))
	if other, err := new(net.ListenConfig).ListenPacket(t.Context(), "udp", addr); err == nil {
		_ = other.Close()
		t.Errorf("%s is free for others", addr)
	}
}
