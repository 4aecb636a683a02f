package gocontrolplane

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"syscall"
)

// port keeps a TCP port while nobody listens on it. Without that the system may
// give the port of a stopped control plane to one of the thousand connections
// that clients open meanwhile, or to an attempt to connect to that very port,
// which then meets itself; and the control plane could not come back. A socket
// that is bound and does not listen is passed over when ports are given out, a
// connection to it is refused, and a listener may be bound beside it.
type port struct{ socket int }

// keepPort keeps the port of a TCP address, and gives the address with the port
// that was chosen where it is 0.
func keepPort(address string) (*port, string, error) {
	tcp, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		return nil, "", err
	}
	addr, ok := netip.AddrFromSlice(tcp.IP)
	if !ok || tcp.Zone != "" {
		return nil, address, nil // all addresses: rare enough to go without
	}
	var at syscall.Sockaddr
	family := syscall.AF_INET6
	if addr = addr.Unmap(); addr.Is4() {
		family, at = syscall.AF_INET, &syscall.SockaddrInet4{Port: tcp.Port, Addr: addr.As4()}
	} else {
		at = &syscall.SockaddrInet6{Port: tcp.Port, Addr: addr.As16()}
	}
	socket, err := syscall.Socket(family, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, "", os.NewSyscallError("socket", err)
	}
	p := &port{socket}
	if err := syscall.SetsockoptInt(socket, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		p.close()
		return nil, "", os.NewSyscallError("setsockopt", err)
	}
	if err := syscall.Bind(socket, at); err != nil {
		p.close()
		return nil, "", fmt.Errorf("listen on %s: %w", address, os.NewSyscallError("bind", err))
	}
	bound, err := syscall.Getsockname(socket)
	if err != nil {
		p.close()
		return nil, "", os.NewSyscallError("getsockname", err)
	}
	switch b := bound.(type) {
	case *syscall.SockaddrInet4:
		tcp.Port = b.Port
	case *syscall.SockaddrInet6:
		tcp.Port = b.Port
	}
	return p, tcp.String(), nil
}

func (p *port) close() {
	if p != nil {
		_ = syscall.Close(p.socket) // nothing was written to it
	}
}
