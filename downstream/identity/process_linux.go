package identity

import (
	"net"
	"syscall"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// processAt says which process connected; nil if the kernel does not say.
func processAt(conn *net.UnixConn) *process {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil
	}
	var cred *syscall.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) {
		cred, failed = syscall.GetsockoptUcred(int(fd), syscall.SOL_SOCKET, syscall.SO_PEERCRED)
	}); err != nil || failed != nil {
		return nil
	}
	return &process{keyer.User{UID: cred.Uid, GID: cred.Gid}, cred.Pid}
}
