package logs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// gate is a writer that stalls until it is opened.
type gate struct {
	open chan struct{}

	mu   sync.Mutex
	text bytes.Buffer
	err  error
}

func newGate() *gate { return &gate{open: make(chan struct{})} }

func (g *gate) Write(p []byte) (int, error) {
	<-g.open
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err != nil {
		return 0, g.err
	}
	return g.text.Write(p)
}

func (g *gate) String() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.text.String()
}

// Lines are written in order, and all of them before Close returns.
func TestWriter_LIM4(t *testing.T) {
	g := newGate()
	close(g.open)
	w := NewWriter(g, 1<<20)
	var want strings.Builder
	for i := range 1000 {
		line := fmt.Sprintf("line %d\n", i)
		want.WriteString(line)
		if n, err := w.Write([]byte(line)); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	if !w.Close(time.Minute) || g.String() != want.String() || w.Lost() != 0 {
		t.Errorf("%d lost of\n%s", w.Lost(), g.String())
	}
	if n, err := w.Write([]byte("late\n")); n != 5 || err != nil || w.Lost() != 1 {
		t.Errorf("after Close: %d, %v, %d lost", n, err, w.Lost())
	}
}

// While the output stalls, nobody waits: what has room waits, the rest is counted, and told
// of once there is room again.
func TestWriter_LIM4_stalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		w := NewWriter(g, 50)
		w.Tell(func(missing uint64) { fmt.Fprintf(w, "missing %d\n", missing) })
		line := func(i int) { fmt.Fprintf(w, "line %04d\n", i) } // of ten bytes
		line(0)
		synctest.Wait() // it is being written
		for i := 1; i <= 10; i++ {
			line(i)
		}
		if w.Lost() != 5 {
			t.Errorf("%d are lost of what has no room, want 5", w.Lost())
		}
		if w.Close(time.Second) {
			t.Error("closed, and the output stalls")
		}
		line(11)
		if w.Lost() != 6 {
			t.Errorf("%d are lost, want 6", w.Lost())
		}
		close(g.open)
		synctest.Wait()
	})
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		w := NewWriter(g, 50)
		w.Tell(func(missing uint64) { fmt.Fprintf(w, "missing %d\n", missing) })
		for i := range 11 {
			fmt.Fprintf(w, "line %04d\n", i)
			synctest.Wait()
		}
		close(g.open)
		synctest.Wait()
		fmt.Fprintln(w, "after")
		if !w.Close(time.Second) || w.Lost() != 5 {
			t.Errorf("%d are lost, want 5", w.Lost())
		}
		const want = "line 0000\nline 0001\nline 0002\nline 0003\nline 0004\nline 0005\nmissing 5\nafter\n"
		if got := g.String(); got != want {
			t.Errorf("got\n%s\nwant\n%s", got, want)
		}
	})
}

// What is longer than all that may wait is dropped, and what cannot be written is counted.
func TestWriter_LIM4_dropped(t *testing.T) {
	g := newGate()
	g.err = errors.New("no space left")
	close(g.open)
	w := NewWriter(g, 50)
	told := uint64(0)
	w.Tell(func(missing uint64) { told += missing })
	_, _ = io.WriteString(w, strings.Repeat("x", 51))
	if !w.Close(time.Minute) || w.Lost() != 1 || told != 1 {
		t.Errorf("%d are lost, %d told", w.Lost(), told)
	}
	w = NewWriter(g, 50)
	_, _ = io.WriteString(w, "a\n")
	if !w.Close(time.Minute) || w.Lost() != 1 {
		t.Errorf("%d are lost", w.Lost())
	}
}

// A pipe that nobody reads holds nobody up.
func TestWriter_LIM4_pipe(t *testing.T) {
	out, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	w := NewWriter(in, 1<<20)
	line := []byte(strings.Repeat("x", 1023) + "\n")
	for range 4 << 10 { // four times what may wait; a pipe takes little beside it
		_, _ = w.Write(line)
	}
	if w.Lost() < 2<<10 || w.Lost() > 3<<10 {
		t.Errorf("%d of %d lines are lost", w.Lost(), 4<<10)
	}
	read := make(chan int)
	go func() {
		all, _ := io.ReadAll(out)
		read <- bytes.Count(all, []byte("\n"))
	}()
	if !w.Close(time.Minute) {
		t.Error("the lines that waited are not written")
	}
	_ = in.Close()
	if n := <-read; n+int(w.Lost()) != 4<<10 {
		t.Errorf("%d lines were read, %d are lost", n, w.Lost())
	}
}

// Many write at once; each line comes as a whole, or is counted.
func TestWriter_LIM4_race(t *testing.T) {
	g := newGate()
	w := NewWriter(g, 1000)
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for range 1000 {
				fmt.Fprintf(w, "%d\n", i)
			}
		})
	}
	close(g.open)
	wg.Wait()
	w.Close(time.Minute)
	lines := strings.Split(strings.TrimSuffix(g.String(), "\n"), "\n")
	for _, line := range lines {
		if len(line) != 1 {
			t.Fatalf("a line %q", line)
		}
	}
	if len(lines)+int(w.Lost()) != 8000 {
		t.Errorf("%d lines, %d are lost", len(lines), w.Lost())
	}
}
