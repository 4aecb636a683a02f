//go:build unix

package relay

import "syscall"

// openFiles is how many files the process may have open; 0: nobody knows.
func openFiles() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0
	}
	return limit.Cur
}
