//go:build unix

package main

import (
	"os"
	"syscall"
)

// hangup is the signal that asks for a reload.
func hangup() os.Signal { return syscall.SIGHUP }
