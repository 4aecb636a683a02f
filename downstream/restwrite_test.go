package downstream

import (
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/restjson"
)

// reader is a client that takes so long for each write.
type reader struct {
	http.ResponseWriter

	takes   time.Duration
	writing func(change int)
	got     int
}

func (*reader) Header() http.Header { return http.Header{} }

func (*reader) WriteHeader(int) {}

func (r *reader) Write(b []byte) (int, error) {
	r.writing(1)
	<-time.After(r.takes)
	r.writing(-1)
	r.got += len(b)
	return len(b), nil
}

// Of many who write large answers as many have their turns as there are places, in turns, and one that waits for
// its client keeps no other from it.
func TestWritingTurns_LIM2(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		now, most := 0, 0
		count := func(change int) {
			mu.Lock()
			defer mu.Unlock()
			now += change
			most = max(most, now)
		}
		turns := writingTurns{make(chan struct{}, 2)}
		large := make([]byte, stretch)
		began := time.Now()
		var all sync.WaitGroup
		const clients, stretches, takes = 100, 5, 100 * time.Microsecond
		write := func(r *reader) {
			in := &inTurns{ResponseWriter: r, turns: turns}
			defer in.close()
			for range stretches {
				for half := range 2 {
					if _, err := in.Write(large[half*stretch/2 : (half+1)*stretch/2]); err != nil {
						t.Error(err)
					}
				}
			}
		}
		for range clients {
			all.Go(func() { write(&reader{takes: takes / 2, writing: count}) })
		}
		all.Wait()
		if most != cap(turns.places) {
			t.Errorf("LIM-2: %d wrote at a time, want %d", most, cap(turns.places))
		}
		if took, want := time.Since(began), clients*stretches*takes/2; took != want {
			t.Errorf("it took %v, want %v", took, want)
		}

		for range clients {
			all.Go(func() { write(&reader{takes: time.Hour, writing: func(int) {}}) })
		}
		synctest.Wait()
		began = time.Now()
		quick := &reader{writing: func(int) {}}
		write(quick)
		if took, most := time.Since(began), clients*stretchTime; took > most || quick.got != stretches*stretch {
			t.Errorf("LIM-2: a client waited %v for %d that do not read, want at most %v; it got %d bytes", took, clients, most, quick.got)
		}
		all.Wait()
		if n := len(turns.places); n != 0 {
			t.Errorf("%d places are left taken", n)
		}
	})
}

// A small answer needs no turn.
func TestSmallAnswers_LIM2(t *testing.T) {
	turns := writingTurns{make(chan struct{})} // nobody ever has one
	small := &reader{writing: func(int) {}}
	turns.write(&answer{code: http.StatusNotModified}, small)
	turns.write(&answer{code: http.StatusOK, body: new(restjson.Body)}, small)
	if n := len(turns.places); n != 0 {
		t.Errorf("%d places are taken", n)
	}
}
