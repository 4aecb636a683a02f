package envoyproc

import (
	"os/exec"
	"syscall"
)

// DieWithParent has the system kill the process when this one ends without a word,
// as a test does that takes too long.
func DieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
