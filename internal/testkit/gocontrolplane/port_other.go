//go:build !linux

package gocontrolplane

// port keeps nothing where a port cannot be kept beside a listener: a port that
// was taken while the control plane was stopped makes Restart fail.
type port struct{}

func keepPort(address string) (*port, string, error) { return nil, address, nil }

func (*port) close() {}
