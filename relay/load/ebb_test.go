package load

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// ebbing plays a process: so many bytes are garbage.
type ebbing struct {
	mu sync.Mutex // guards what follows

	taken

	garbage int64
	freed   int
}

func (p *ebbing) read() taken {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

func (p *ebbing) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

func (p *ebbing) free() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.bytes -= p.garbage
	p.garbage = 0
	p.collections++
	p.freed++
}

// Memory goes back when the process is at rest, after it has grown or after most have left, and once.
func TestEbb_LIM3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &ebbing{taken: taken{bytes: 30 << 20, goroutines: 100}}
		e := &Ebb{read: p.read, free: p.free}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() { defer close(done); e.Run(ctx) }()
		pass := func(d time.Duration) {
			<-time.After(d)
			synctest.Wait()
		}
		for _, step := range []struct {
			name   string
			change func()
			wait   time.Duration
			freed  int
		}{
			{"a small process", func() {}, time.Minute, 0},
			{"a crowd comes", func() { p.bytes, p.goroutines, p.collections = 2<<30, 50_000, 10 }, 2 * time.Second, 0},
			{"at rest", func() { p.garbage = 1 << 30 }, time.Minute, 1},
			{"it needs what is left", func() {}, time.Hour, 1},
			{"a few leave", func() { p.goroutines = 40_000 }, time.Minute, 1},
			{"most leave", func() { p.goroutines, p.garbage = 200, 1<<30-50<<20 }, ebbRest + 2*ebbLook, 2},
			{"all is well", func() {}, time.Hour, 2},
		} {
			p.change(step.change)
			pass(step.wait)
			if p.freed != step.freed {
				t.Errorf("LIM-3: %s: memory was given back %d times, want %d", step.name, p.freed, step.freed)
			}
		}
		// While garbage is collected anyway, the relay leaves it at that.
		p.change(func() { p.bytes += 1 << 30 })
		for range 60 {
			p.change(func() { p.collections++ })
			pass(time.Second)
		}
		if p.freed != 2 {
			t.Errorf("LIM-3: memory was given back %d times while the process was busy, want 2", p.freed)
		}
		cancel()
		<-done
	})
}

// What is read is the process's own.
func TestReadTaken_LIM3(t *testing.T) {
	before := readTaken()
	runtime.GC()
	after := readTaken()
	if after.bytes <= 0 || after.goroutines < 1 || after.collections <= before.collections {
		t.Errorf("LIM-3: %+v, then %+v", before, after)
	}
}

// A process that makes garbage slowly has it collected as Go does, or nearly: a collection looks at everything that
// is in use. Streams that come and go in small numbers are no crowd.
func TestEbbSeldom_LIM3(t *testing.T) {
	const live, each = 2 << 30, 10 << 20
	synctest.Test(t, func(t *testing.T) {
		p := &ebbing{taken: taken{bytes: live, goroutines: 100}}
		e := &Ebb{read: p.read, free: p.free}
		e.last = p.taken
		for at := range 600 {
			p.bytes += each
			p.garbage += each
			p.goroutines = 100 + int64(at%2)*200
			e.look(time.Now())
			<-time.After(time.Second)
		}
		if most := 600 * each / (live / 4); p.freed > most || p.freed == 0 {
			t.Errorf("LIM-3: memory was given back %d times in ten minutes, want at most %d", p.freed, most)
		}
	})
}
