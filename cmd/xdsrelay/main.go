// Command xdsrelay is a caching relay for xDS: it stands between control planes
// and a fleet of proxies.
//
// The package holds the commands: their flags, what they say when something is
// wrong, and exit codes. What they do is in the rooms: serve starts package
// relay, validate asks package config, watch is internal/watch.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run carries out a command line, without the program's name, until it is done
// or ctx ends, and returns the exit code. It reads the environment (XDSRELAY_…,
// NO_COLOR, TERM) and opens files; of the process it takes nothing else.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := rootCommand()
	root.SetArgs(append([]string{}, args...)) // nil would be the process's own
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	f := asFailure(cmd, err)
	f.print(stderr)
	return f.code
}
