package load

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/retry"
)

// Ebb gives memory back to the system after a crowd has left (LIM-3). Go by itself collects garbage when
// the process makes more of it, and else every two minutes: a relay at rest would keep for minutes what
// its clients took. The zero Ebb is ready for use.
type Ebb struct {
	read func() taken // nil: of this process
	free func()       // nil: debug.FreeOSMemory

	last  taken     // after memory was given back
	quiet time.Time // since when no garbage was collected
	seen  taken     // at the last look
}

// taken is what the process has taken.
type taken struct {
	bytes       int64  // from the system, and not given back
	goroutines  int64  // they stand for clients and scopes
	collections uint64 // garbage collections so far
}

// When memory is given back. A collection of a process at rest harms nobody, and there is one only
// after the process has grown, or many have left. A collection costs time in proportion to the memory in use.
// So the growth that it waits for is a part of this memory.
const (
	ebbLook  = time.Second
	ebbRest  = 5 * time.Second // without a collection
	ebbBytes = 64 << 20        // more than after the last time, at least
	ebbPart  = 4               // the part of what there was then by which it is more, at least
	ebbLeft  = 1000            // goroutines that have left, at least
)

// Run looks every second until ctx ends.
func (e *Ebb) Run(ctx context.Context) {
	if e.read == nil {
		e.read, e.free = readTaken, debug.FreeOSMemory
	}
	retry.Every(ctx, ebbLook, e.look)
}

// look gives memory back if the process is at rest and has more than it needs, as far as anybody can tell.
func (e *Ebb) look(now time.Time) {
	is := e.read()
	if is.collections != e.seen.collections {
		e.quiet = now
	}
	e.seen = is
	grown := is.bytes > e.last.bytes+max(ebbBytes, e.last.bytes/ebbPart)
	left := is.goroutines < e.last.goroutines/2 && e.last.goroutines-is.goroutines >= ebbLeft && is.bytes > ebbBytes
	if !grown && !left || now.Sub(e.quiet) < ebbRest {
		if is.goroutines > e.last.goroutines {
			e.last.goroutines = is.goroutines // those of clients that came since, and may leave
		}
		return
	}
	e.free()
	e.last = e.read()
	e.seen, e.quiet = e.last, now
}

// readTaken reads what this process has taken.
func readTaken() taken {
	samples := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"},
		{Name: "/memory/classes/heap/released:bytes"},
		{Name: "/sched/goroutines:goroutines"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(samples)
	return taken{
		bytes:       int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()),
		goroutines:  int64(samples[2].Value.Uint64()),
		collections: samples[3].Value.Uint64(),
	}
}
