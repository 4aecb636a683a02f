package logs

import (
	"bytes"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/notify"
)

// Writer writes lines in the background. Its methods may be called from any goroutine.
type Writer struct {
	// immutable after New
	out   io.Writer
	limit int           // of queue
	wake  chan struct{} // one slot: there is something to do
	done  chan struct{} // closed when everything is written and no more is taken

	lost atomic.Uint64

	mu      sync.Mutex           // guards what follows
	tell    func(missing uint64) // nil: nobody is told
	queue   []byte               // whole lines that are to be written
	spare   []byte               // the queue before, for its memory
	missing uint64               // lines that were dropped, and of which nobody was told
	closing bool
	closed  bool
}

// NewWriter begins to write lines to out, of which no more than limit bytes wait. Close must be
// called.
func NewWriter(out io.Writer, limit int) *Writer {
	w := &Writer{out: out, limit: limit, wake: notify.New(), done: make(chan struct{})}
	go w.run()
	return w
}

// Tell has f called, after lines were dropped, as soon as lines can be written again. It may
// write to w.
func (w *Writer) Tell(f func(missing uint64)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell = f
}

// Lost is how many lines were dropped, or could not be written, so far.
func (w *Writer) Lost() uint64 { return w.lost.Load() }

// Write takes one line, or drops it. It never blocks and never fails.
func (w *Writer) Write(line []byte) (int, error) {
	w.mu.Lock()
	if w.closed || len(w.queue)+len(line) > w.limit {
		w.missing++
		w.mu.Unlock()
		w.lost.Add(1)
		w.ring()
		return len(line), nil
	}
	w.queue = append(w.queue, line...)
	w.mu.Unlock()
	w.ring()
	return len(line), nil
}

func (w *Writer) ring() {
	notify.Signal(w.wake)
}

// Close waits until all lines are written, at most so long: out may stall for ever, and the
// goroutine that writes stays until it does no longer. It reports whether they are. What is
// written to w later is dropped.
func (w *Writer) Close(most time.Duration) bool {
	w.mu.Lock()
	w.closing = true
	w.mu.Unlock()
	w.ring()
	timer := time.NewTimer(most)
	defer timer.Stop()
	select {
	case <-w.done:
		return true
	case <-timer.C:
		w.mu.Lock()
		defer w.mu.Unlock()
		w.closed = true
		return false
	}
}

// run writes until the writer is closed and nothing is left.
func (w *Writer) run() {
	defer close(w.done)
	for range w.wake {
		for {
			lines, missing, tell, more := w.take()
			if !more {
				return
			}
			if len(lines) == 0 && missing == 0 {
				break
			}
			w.write(lines, missing, tell)
		}
	}
}

// take gives the lines that wait, and how many were dropped. more is not set if there will be
// none.
func (w *Writer) take() (lines []byte, missing uint64, tell func(uint64), more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	lines, missing = w.queue, w.missing
	if len(lines) == 0 && missing == 0 || w.closed {
		w.closed = w.closing
		return nil, 0, nil, !w.closed
	}
	w.queue, w.spare, w.missing = w.spare[:0], nil, 0
	return lines, missing, w.tell, true
}

func (w *Writer) write(lines []byte, missing uint64, tell func(uint64)) {
	if len(lines) > 0 {
		if n, err := w.out.Write(lines); err != nil {
			w.lost.Add(uint64(bytes.Count(lines[max(0, n):], []byte("\n"))))
			missing = 0 // telling of them would come to the same
		}
	}
	w.mu.Lock()
	w.spare = lines[:0]
	w.mu.Unlock()
	if missing > 0 && tell != nil {
		tell(missing)
	}
}
