package upstream

import (
	"bytes"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// manyTypes is a session of a kind, of which nothing runs: look has it look at what is
// wanted.
func manyTypes(tb testing.TB, kind string, store Store, log *slog.Logger, obs Observer) (look func(), status func() Status) {
	tb.Helper()
	cfg := SessionConfig{Store: store, Observer: obs}
	switch kind {
	case "REST":
		u, err := New(Config{APIType: REST, Endpoints: [][]string{{"a:1"}}, Logger: log})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(u.Close)
		s, err := u.NewSession(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		return func() { lookAt(s) }, s.Status
	case "files":
		f, err := NewFiles(FilesConfig{Path: filepath.Join(tb.TempDir(), "missing"), Logger: log})
		if err != nil {
			tb.Fatal(err)
		}
		f.Close()
		s, err := f.NewSession(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		f.view.Store(&fileView{read: true, complete: true})
		return func() { lookAt(s) }, s.Status
	default:
		u, err := New(Config{Endpoints: [][]string{{"a:1"}}, APIType: GRPC, Logger: log})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(u.Close)
		s, err := u.NewSession(cfg)
		if err != nil {
			tb.Fatal(err)
		}
		return func() { lookAt(s) }, s.Status
	}
}

// invented is a type that no server has.
func invented(i int) string { return fmt.Sprint("type.googleapis.com/invented.v1.Type", i) }

// kinds are those of sessions.
var kinds = []string{"GRPC", "REST", "files"}

// BenchmarkInventedTypes is what one look at the demand costs for each of the types that a
// client invents: the time per type must not grow with their number.
func BenchmarkInventedTypes(b *testing.B) {
	for _, kind := range kinds {
		for _, n := range []int{500, 4000} {
			b.Run(fmt.Sprintf("%s/%d", kind, n), func(b *testing.B) {
				store := newStore()
				for i := range n {
					store.wanted[wire.StreamID{TypeURL: invented(i)}] = []wire.Subscription{sub(invented(i), "a")}
				}
				for b.Loop() {
					look, _ := manyTypes(b, kind, store, nil, nil)
					look()
					look()
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/type")
			})
		}
	}
}

// The types that clients invent do not flood the log, and each is counted once for as long
// as it is wanted (OPS-6).
func TestOPS6InventedTypesDoNotFloodTheLog(t *testing.T) {
	const together, oneByOne = 1000, 100
	for _, kind := range kinds[:2] {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				b := newBed(t, cache.Source{State: true, PerType: true})
				obs := &recorder{}
				warned := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
				look, status := manyTypes(t, kind, b, warned, obs)
				warnings := func() int {
					defer log.Reset()
					return strings.Count(log.String(), "no service of their own")
				}
				for i := range together {
					b.want(invented(i), "a")
				}
				look()
				if !strings.Contains(log.String(), fmt.Sprint("count=", together)) || log.Len() > 2000 {
					t.Errorf("logged %s", &log)
				}
				if got := warnings(); got != 1 {
					t.Errorf("%d warnings of a thousand types at once, want 1", got)
				}
				for i := range oneByOne {
					b.want(invented(together+i), "a")
					look()
				}
				if got := warnings(); got != maxWarnings-1 {
					t.Errorf("%d more warnings of a hundred types one by one, want %d", got, maxWarnings-1)
				}
				<-time.After(warningPause)
				b.want(invented(together+oneByOne), "a")
				look()
				look()
				if got := warnings(); got != 1 {
					t.Errorf("%d warnings a minute later, want 1", got)
				}
				const all = together + oneByOne + 1
				if got := len(status().Unavailable); got != all || len(obs.unavailable) != all {
					t.Errorf("status lists %d types, %d were told of, want %d", got, len(obs.unavailable), all)
				}
			})
		})
	}
}
