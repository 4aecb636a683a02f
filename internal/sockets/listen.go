package sockets

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// probeTime is how long a process that listens on a socket may take to accept a connection.
const probeTime = 2 * time.Second

var errInUse = errors.New("another process listens on it")

// Listen listens on host:port, unix:///path or unix:@name. mode is that of the socket's file.
//
// If there is a socket's file on which nobody listens, a relay that was killed left it behind, and
// Listen replaces it. Listen replaces no other file. Closing the listener removes the file, unless
// another process has put its own there.
func Listen(ctx context.Context, address string, mode fs.FileMode) (net.Listener, error) {
	name, is, err := Unix(address)
	if err != nil {
		return nil, err
	}
	if !is {
		var lc net.ListenConfig
		return lc.Listen(ctx, "tcp", address)
	}
	if strings.HasPrefix(name, "@") {
		var lc net.ListenConfig
		return lc.Listen(ctx, "unix", name)
	}
	lis, err := listenFile(ctx, name, mode)
	if err != nil {
		return nil, fmt.Errorf("unix socket %s: %w", name, err)
	}
	return lis, nil
}

func listenFile(ctx context.Context, path string, mode fs.FileMode) (net.Listener, error) {
	if err := removeStale(ctx, path); err != nil {
		return nil, err
	}
	// The file is at no time open to more users than in the end.
	lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { return narrow(c, mode.Perm()) }}
	opened, err := lc.Listen(ctx, "unix", path)
	if err != nil {
		return nil, reasonOf(err)
	}
	lis, ok := opened.(*net.UnixListener)
	if !ok {
		return nil, errors.Join(errors.ErrUnsupported, opened.Close())
	}
	lis.SetUnlinkOnClose(false) // file removes its own
	own, err := os.Lstat(path)
	if err == nil {
		err = os.Chmod(path, mode.Perm())
	}
	if err != nil {
		return nil, errors.Join(err, lis.Close())
	}
	return &file{UnixListener: lis, path: path, own: own}, nil
}

// removeStale removes a socket's file on which nobody listens.
func removeStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return reasonOf(err)
	case info.Mode().Type() != fs.ModeSocket:
		return errors.New("there is a file that is not a socket")
	}
	d := net.Dialer{Timeout: probeTime}
	conn, err := d.DialContext(ctx, "unix", path)
	switch {
	case err == nil:
		return errors.Join(errInUse, conn.Close())
	case !errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("there is a socket of which nobody can say whether a process listens on it: %w", reasonOf(err))
	}
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("removing what a process that ended has left: %w", reasonOf(err))
	}
	return nil
}

// reasonOf gives an error without what the caller says itself: the operation and the path.
func reasonOf(err error) error {
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		return errno
	}
	return err
}

// file is a listener with a file of its own.
type file struct {
	*net.UnixListener

	path string
	own  fs.FileInfo
	once sync.Once
}

// Close closes the listener and removes its file.
func (f *file) Close() error {
	// Once the listener is closed, another process may take the file for one that was left behind:
	// it is removed first.
	f.once.Do(func() {
		if now, err := os.Lstat(f.path); err == nil && os.SameFile(now, f.own) {
			_ = os.Remove(f.path) // the listener is closed in any case
		}
	})
	return f.UnixListener.Close()
}
