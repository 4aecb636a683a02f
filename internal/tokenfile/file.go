package tokenfile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"

	"github.com/xdsrelay/xdsrelay/internal/filewatch"
)

// maxSize bounds a token, in bytes. Servers take no longer headers.
const maxSize = 16 << 10

// File is a file with a token. Any goroutine may call its methods.
type File struct {
	path string
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu     sync.Mutex
	token  string
	before string // the token that it replaced; "" if there is none
}

// Open reads the file and follows it until Close. A file that cannot be used any more leaves the
// last good token in use. The log is for operators.
func Open(path string, log *slog.Logger) (*File, error) {
	// The watch begins before the first reading, so no change is missed.
	watch, err := filewatch.NewFile(path)
	if err != nil {
		return nil, fmt.Errorf("token file: %w", err)
	}
	token, err := Read(path)
	if err != nil {
		return nil, fmt.Errorf("token file %s: %w", path, err)
	}
	ctx, stop := context.WithCancel(context.Background())
	f := &File{path: path, stop: stop, token: token}
	f.wg.Go(func() { watch.Run(ctx, log, func() { f.renew(log) }) })
	return f, nil
}

// Close follows the file no longer. The token stays.
func (f *File) Close() {
	f.stop()
	f.wg.Wait()
}

// Token returns the token.
func (f *File) Token() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.token
}

// Lately returns the token and the one that it replaced: what a server quotes may be either.
func (f *File) Lately() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.before == "" {
		return []string{f.token}
	}
	return []string{f.token, f.before}
}

func (f *File) renew(log *slog.Logger) {
	token, err := Read(f.path)
	if err != nil {
		log.Error("token file cannot be used, keeping the last good token", "file", f.path, "error", err)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if token != f.token {
		f.before, f.token = f.token, token
		log.Info("token file taken up", "file", f.path)
	}
}

// Read reads a token. The error does not name the file, unless it is the system's. Space around it does not belong to it. What is no regular file is refused.
func Read(path string) (string, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for somebody who writes it
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // nothing was written
	if info, err := file.Stat(); err != nil {
		return "", err
	} else if !info.Mode().IsRegular() {
		return "", errors.New("expected a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSize+1))
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(data))
	if err := check(token, len(data)); err != nil {
		return "", err
	}
	return token, nil
}

// check holds a token to what a header can have (RFC 6750, section 2.1).
func check(token string, size int) error {
	const marks = "-._~+/="
	other := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune(marks, r)
	}
	switch {
	case size > maxSize:
		return fmt.Errorf("expected a token of at most %d bytes", maxSize)
	case token == "":
		return errors.New("expected a token, got an empty file")
	case strings.ContainsFunc(token, other):
		return fmt.Errorf("expected a token of letters, digits and any of %s only, without the word Bearer", marks)
	}
	return nil
}
