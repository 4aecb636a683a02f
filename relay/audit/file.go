package audit

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"syscall"
)

// file is a file that lines are added to. Others may rename or remove it at any time: the next lines go to a new one. It
// implements io.Writer, for one goroutine.
type file struct {
	path string // immutable
	lost func() // immutable; called for each line that is not written; nil: nobody counts them

	mu sync.Mutex // guards what follows
	to *os.File   // nil: it could not be opened
}

// open opens the file, for its owner alone if it makes it. A pipe would wait for somebody who reads it.
func (f *file) open() error {
	to, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	info, err := to.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("expected a regular file")
	}
	if err != nil {
		return errors.Join(&os.PathError{Op: "open", Path: f.path, Err: err}, to.Close())
	}
	f.to = to
	return nil
}

// there reports whether the path still leads to the file.
func (f *file) there() bool {
	if f.to == nil {
		return false
	}
	opened, err := f.to.Stat()
	now, gone := os.Stat(f.path)
	return err == nil && gone == nil && os.SameFile(opened, now)
}

func (f *file) Write(lines []byte) (n int, err error) {
	defer func() {
		if err != nil && f.lost != nil {
			for range bytes.Count(lines[n:], []byte("\n")) {
				f.lost()
			}
		}
	}()
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.there() {
		f.shut()
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	return f.to.Write(lines)
}

func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.shut()
}

func (f *file) shut() {
	if f.to != nil {
		_ = f.to.Close() // what was written is with the system
		f.to = nil
	}
}
