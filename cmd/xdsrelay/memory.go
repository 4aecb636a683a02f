package main

import (
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/xdsrelay/xdsrelay/config"
)

// memoryShare is which part of what the process may have Go's heap is kept below: the rest is for
// what Go does not count.
const memoryShare = 0.9

// limitMemory has Go collect garbage before the process takes more memory than it may (LIM-3), and
// gives the limit in bytes; 0: there is none. GOMEMLIMIT in the environment goes before "auto".
func limitMemory(limit config.Memory, log *slog.Logger) int64 {
	switch limit {
	case 0:
		return 0
	case config.AutoMemory:
		bytes, err := memlimit.Set(
			memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)), memlimit.WithRatio(memoryShare),
		)
		if err != nil {
			log.Warn("the relay cannot find out how much memory it may take: set limits.memory", "error", err)
			return 0
		}
		if bytes == math.MaxInt64 {
			return 0
		}
		return bytes
	default:
		bytes := int64(float64(limit) * memoryShare)
		debug.SetMemoryLimit(bytes)
		return bytes
	}
}
