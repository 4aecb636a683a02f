//go:build !linux

// Bench needs Linux: epoll for its clients, /proc for what servers use.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: it needs Linux")
	os.Exit(1)
}
