package files

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Read reads a file of at most some bytes. What is no regular file is refused, and never waited for.
// The error does not name the file, unless it is the system's.
func Read(path string, limit int64) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe would wait for somebody who writes it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	if info, err := file.Stat(); err != nil {
		return nil, err
	} else if !info.Mode().IsRegular() {
		return nil, errors.New("expected a regular file")
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1))
	if err != nil {
		return nil, err
	}
	if int64(len(data)) > limit {
		return nil, fmt.Errorf("expected at most %d bytes", limit)
	}
	return data, nil
}
