//go:build !linux

package envoyproc

import "os/exec"

// dieWithParent does nothing: other systems have no such signal.
func dieWithParent(*exec.Cmd) {}
