package credentials

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// followed is what a file says, as of when it could be used last. Any goroutine may call its methods.
type followed[T any] struct {
	stop    context.CancelFunc
	wg      sync.WaitGroup
	current atomic.Pointer[T]
}

// follow reads a file, and reads it again whenever it changes. A file that cannot be used any more
// leaves what it said before. read gets what the file said before, nil at first. The log is for
// operators.
func follow[T any](path string, log *slog.Logger, read func(before *T) (*T, error)) (*followed[T], error) {
	// The watch begins before the first reading, so no change is missed.
	watch, err := files.NewWatchedFile(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	first, err := read(nil)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	ctx, stop := context.WithCancel(context.Background()) //nolint:gosec // Close calls it
	f := &followed[T]{stop: stop}
	f.current.Store(first)
	f.wg.Go(func() {
		watch.Run(ctx, log, func() {
			next, err := read(f.current.Load())
			if err != nil {
				log.Error("token file cannot be used, keeping what it said last", "file", path, "error", err)
				return
			}
			f.current.Store(next)
			log.Info("token file taken up", "file", path)
		})
	})
	return f, nil
}

// Close follows the file no longer. What it said stays.
func (f *followed[T]) Close() {
	f.stop()
	f.wg.Wait()
}
