package identity

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// process is the one at the other end of a unix socket, as it was when it connected. Its ID is for
// people: another process may have it by now, and others may have inherited the connection.
type process struct {
	user keyer.User
	pid  int32
}

// Network implements net.Addr.
func (*process) Network() string { return "unix" }

// String implements net.Addr.
func (p *process) String() string { return fmt.Sprintf("unix(uid=%d pid=%d)", p.user.UID, p.pid) }
