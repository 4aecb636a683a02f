package downstream

import (
	"net/http"
	"runtime"
	"sync/atomic"
	"time"
)

// stretch is how many bytes of a large answer are written before another one has its turn, and stretchTime
// how long its turn is at most: then its client does not read, and nothing is computed for it.
const (
	stretch     = 64 << 10
	stretchTime = 200 * time.Microsecond
)

// writingTurns are for goroutines that write large answers (LIM-2). To write 20 MiB takes milliseconds of a
// processor. Go lets a thousand goroutines take turns of up to ten milliseconds, and looks for requests and
// updates that came when none of them can run. So few write at a time, stretch by stretch, and the
// others wait elsewhere. A processor is left for streams, if there is more than one.
type writingTurns struct{ places chan struct{} }

func newWritingTurns() writingTurns {
	return writingTurns{make(chan struct{}, max(1, runtime.GOMAXPROCS(0)-1))}
}

// write sends an answer.
func (w writingTurns) write(a *answer, to http.ResponseWriter) {
	if a.body == nil || a.body.Size() <= stretch {
		a.write(to)
		return
	}
	in := &inTurns{ResponseWriter: to, turns: w}
	defer in.close()
	a.write(in)
}

// writingTurn is a place until it ends.
type writingTurn struct {
	of    writingTurns
	ended atomic.Bool
	limit *time.Timer
}

// take waits for a turn. Others have it after stretchTime, whether it ended or not: so a client that does
// not read keeps nobody waiting.
func (w writingTurns) take() *writingTurn {
	w.places <- struct{}{}
	t := &writingTurn{of: w}
	t.limit = time.AfterFunc(stretchTime, t.end)
	return t
}

// end ends a turn. Further calls do nothing.
func (t *writingTurn) end() {
	if t.ended.CompareAndSwap(false, true) {
		<-t.of.places
	}
}

// inTurns writes an answer in turns with others. close is to be called when it is written.
type inTurns struct {
	http.ResponseWriter

	turns writingTurns
	turn  *writingTurn // nil: none
	left  int          // of the stretch
}

// Unwrap is for http.ResponseController.
func (w *inTurns) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Write implements io.Writer.
func (w *inTurns) Write(b []byte) (int, error) {
	if w.turn == nil {
		w.turn, w.left = w.turns.take(), stretch
	}
	n, err := w.ResponseWriter.Write(b)
	if w.left -= n; w.left <= 0 || err != nil {
		w.close()
	}
	return n, err
}

// close gives the turn to others.
func (w *inTurns) close() {
	if w.turn != nil {
		w.turn.limit.Stop()
		w.turn.end()
		w.turn = nil
	}
}
