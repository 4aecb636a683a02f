package sockets

import (
	"io/fs"
	"syscall"
)

// narrow has the file of a socket begin with a mode, less the umask: Linux gives the file that of
// the socket.
func narrow(c syscall.RawConn, mode fs.FileMode) error {
	var failed error
	if err := c.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), uint32(mode)) }); err != nil {
		return err
	}
	return failed
}
