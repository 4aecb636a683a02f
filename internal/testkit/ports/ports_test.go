package ports_test

import (
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
