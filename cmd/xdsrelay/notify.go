package main

import (
	"log/slog"
	"net"
)

// manager is a service manager that waits to hear how far the process is: the socket in NOTIFY_SOCKET, as
// sd_notify(3) of systemd describes it. "": there is none.
type manager string

// States of the process, in the manager's words.
const (
	stateReady     = "READY=1"
	stateReloading = "RELOADING=1"
	stateStopping  = "STOPPING=1"
)

// tell tells the manager the state. A process that cannot tell it works on.
func (m manager) tell(state string, log *slog.Logger) {
	if m == "" {
		return
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: string(m), Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(state))
		_ = conn.Close() // the datagram is sent, or err says why not
	}
	if err != nil {
		log.Warn("the service manager was not told the state of the relay", "state", state, "socket", string(m), "error", err)
	}
}
