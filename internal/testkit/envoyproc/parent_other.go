//go:build !linux

package envoyproc

import "os/exec"

// DieWithParent does nothing: other systems have no such signal.
func DieWithParent(*exec.Cmd) {}
