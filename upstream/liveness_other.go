//go:build !linux

package upstream

import (
	"net"
	"time"
)

// setUserTimeout does nothing where there is no such option: probes notice silent
// connections, and retransmission gives up in the system's own time.
func setUserTimeout(*net.TCPConn, time.Duration) error { return nil }
