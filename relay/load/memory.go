package load

import (
	"context"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

// Level says how much of its memory the process has used up.
type Level int32

// The levels. At each one the relay also does what the one before says (LIM-3).
const (
	Calm  Level = iota
	Tight       // content without clients is evicted, and new scopes are refused
	Full        // new streams and polls are refused
)

// String gives the level as the admin port and the log call it.
func (l Level) String() string { return [...]string{"calm", "tight", "full"}[l] }

// At which shares of the limit the levels begin, in percent, and how much below it they end: else
// what is let go of at a level would be taken on again at once.
const (
	tightAt = 80
	fullAt  = 90
	slack   = 5
)

// memoryLook is how often the memory is looked at. A look takes a microsecond. What is done about it
// takes longer: it is done at a new level, and every so many looks.
const (
	memoryLook   = 100 * time.Millisecond
	looksPerTidy = 10
)

// Memory watches the memory of the process. The zero Memory has no limit: it is always calm.
type Memory struct {
	limit int64
	used  func() int64
	level atomic.Int32
}

// NewMemory makes one with a limit in bytes; 0: none. used gives the bytes in use; nil: [Used].
func NewMemory(limit int64, used func() int64) *Memory {
	if used == nil {
		used = Used
	}
	return &Memory{limit: limit, used: used}
}

// Limit is the limit in bytes; 0: none.
func (m *Memory) Limit() int64 { return m.limit }

// Used is how many bytes are in use.
func (m *Memory) Used() int64 { return m.used() }

// Level is the present level. It may be called by any goroutine, for each stream. A nil Memory is calm.
func (m *Memory) Level() Level {
	if m == nil {
		return Calm
	}
	return Level(m.level.Load())
}

// Run looks at the memory until ctx ends. changed is told of each new level. tidy is called at a new
// level that is not Calm, and every second while there is one.
func (m *Memory) Run(ctx context.Context, changed func(now Level, used int64), tidy func()) {
	if m.limit <= 0 {
		return
	}
	ticker := time.NewTicker(memoryLook)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		used := m.used()
		was := m.Level()
		now := m.judge(used, was)
		if now != was {
			m.level.Store(int32(now))
			looks = 0
			changed(now, used)
		}
		if now != Calm && looks%looksPerTidy == 0 {
			tidy()
		}
	}
}

// judge gives the level that follows.
func (m *Memory) judge(used int64, was Level) Level {
	const whole = 100
	share := used * whole / m.limit
	switch {
	case share >= fullAt, was == Full && share >= fullAt-slack:
		return Full
	case share >= tightAt, was != Calm && share >= tightAt-slack:
		return Tight
	}
	return Calm
}

// Used is how many bytes of memory the process cannot do without: what the last garbage collection
// found in use, stacks, and what the runtime needs. Garbage is not in it: Go collects it before the
// limit is reached.
func Used() int64 {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"},
		{Name: "/memory/classes/heap/stacks:bytes"},
		{Name: "/memory/classes/os-stacks:bytes"},
		{Name: "/memory/classes/metadata/mspan/inuse:bytes"},
		{Name: "/memory/classes/metadata/mcache/inuse:bytes"},
		{Name: "/memory/classes/metadata/other:bytes"},
		{Name: "/memory/classes/other:bytes"},
	}
	metrics.Read(samples)
	var total int64
	for _, s := range samples {
		total += int64(s.Value.Uint64())
	}
	return total
}
