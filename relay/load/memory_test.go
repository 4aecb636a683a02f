package load

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// The levels begin at 80 and 90 percent, and end five percent below.
func TestMemory_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var used atomic.Int64
		var told []Level
		looks := 0
		m := NewMemory(1000, used.Load)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.Run(ctx, func(now Level, _ int64) { told = append(told, now) }, func() { looks++ })
		}()
		for _, step := range []struct {
			used int64
			want Level
		}{{0, Calm}, {799, Calm}, {800, Tight}, {760, Tight}, {750, Tight}, {749, Calm}, {900, Full}, {850, Full}, {849, Tight}, {2000, Full}, {0, Calm}} {
			used.Store(step.used)
			<-time.After(memoryLook)
			synctest.Wait()
			if got := m.Level(); got != step.want {
				t.Errorf("LIM-3: with %d of 1000: %s, want %s", step.used, got, step.want)
			}
		}
		used.Store(950)
		<-time.After(3 * time.Second)
		synctest.Wait()
		cancel()
		<-done
		// Calm is told twice, and then a level is kept for three seconds.
		if len(told) != 7 || looks != 7-2+2 {
			t.Errorf("LIM-3: told of %v, and tidied up %d times", told, looks)
		}
	})
}

func TestMemoryWithoutLimit_LIM3(t *testing.T) {
	m := NewMemory(0, func() int64 { t.Error("it is looked at"); return 0 })
	m.Run(t.Context(), nil, nil) // returns
	if m.Level() != Calm {
		t.Errorf("LIM-3: %s", m.Level())
	}
}

// What is counted is what is in use, not what is garbage.
func TestUsed_LIM3(t *testing.T) {
	const size = 64 << 20
	runtime.GC()
	before := Used()
	kept := make([]byte, size)
	runtime.GC()
	with := Used()
	runtime.KeepAlive(kept)
	kept = nil
	_ = kept
	runtime.GC()
	after := Used()
	if with-before < size*9/10 || with-after < size*9/10 {
		t.Errorf("LIM-3: %d, %d and %d bytes before, with and after %d", before, with, after, size)
	}
}
