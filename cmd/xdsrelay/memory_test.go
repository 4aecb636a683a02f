package main

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"testing"

	"github.com/xdsrelay/xdsrelay/config"
)

func TestLimitMemory_LIM3(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	log := slog.New(slog.DiscardHandler)
	if got := limitMemory(0, log); got != 0 || debug.SetMemoryLimit(-1) != before {
		t.Errorf("LIM-3: a limit of %d though there is to be none", got)
	}
	const gib = 1 << 30
	if got := limitMemory(config.Memory(gib), log); got != gib/10*9 && got != gib*9/10 || debug.SetMemoryLimit(-1) != got {
		t.Errorf("LIM-3: %d bytes of a GiB, and Go's limit is %d", got, debug.SetMemoryLimit(-1))
	}
	t.Setenv("GOMEMLIMIT", "") // restores it
	if err := os.Unsetenv("GOMEMLIMIT"); err != nil {
		t.Fatal(err)
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if got := limitMemory(config.AutoMemory, log); got <= 0 || got == math.MaxInt64 {
		t.Errorf("LIM-3: auto is %d bytes", got)
	}
	t.Setenv("GOMEMLIMIT", "5GiB")
	debug.SetMemoryLimit(5 * gib)
	if got := limitMemory(config.AutoMemory, log); got != 5*gib {
		t.Errorf("LIM-3: %d bytes, though GOMEMLIMIT says 5 GiB", got)
	}
}
