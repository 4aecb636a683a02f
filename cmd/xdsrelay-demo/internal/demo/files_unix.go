//go:build unix

package demo

import (
	"fmt"
	"syscall"
)

// openFiles raises the number of files that this process may have open to the
// most it may raise it to, and gives it. (Go does so itself at the start, but
// not for everybody: a program that set it before keeps it.)
func openFiles() (uint64, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0, fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur < limit.Max {
		raised := limit
		raised.Cur = limit.Max
		// Some systems refuse more than another limit of theirs; then it stays.
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &raised); err == nil {
			limit = raised
		}
	}
	return uint64(limit.Cur), nil //nolint:unconvert // Rlimit's fields are signed on some systems
}
