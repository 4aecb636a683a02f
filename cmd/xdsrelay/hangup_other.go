//go:build !unix

package main

import "os"

// hangup is the signal that asks for a reload: here there is none.
func hangup() os.Signal { return nil }
