//go:build unix

package files

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock locks a file until it is closed or the process ends, however it ends.
func lock(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// openToOthers reports whether each user of the machine may change what is in a folder.
func openToOthers(info os.FileInfo) bool { return info.Mode().Perm()&unix.S_IWOTH != 0 }

// writable reports whether the process may make files in a folder.
func writable(path string) bool { return unix.Access(path, unix.W_OK|unix.X_OK) == nil }
