package tokenfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/xdsrelay/xdsrelay/internal/filewatch"
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
	watch, err := filewatch.NewFile(path)
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

// contents reads a file of at most some bytes. What is no regular file is refused.
func contents(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for somebody who writes it
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("expected a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("expected at most %d bytes", limit)
	}
	return data, err
}
