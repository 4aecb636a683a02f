// Package cli has what the programs of this repository have in common: it runs a
// command line, gives errors their exit codes, and prints results as text or JSON.
//
// The package knows no command. The programs under cmd call it.
package cli

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Main executes the process's command line with root and ends the process. The signals
// that end a program end root's context.
func Main(root *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := Run(ctx, root, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Run executes a command line, without the program's name, until the command ends or ctx
// ends, and returns the exit code. Commands read the environment (XDSRELAY_…, NO_COLOR,
// TERM) and open files. They use nothing else of the process.
func Run(ctx context.Context, root *cobra.Command, args []string, stdout, stderr io.Writer) int {
	root.SilenceErrors, root.SilenceUsage = true, true // printed below
	root.SetArgs(append([]string{}, args...))          // nil would be the process's own
	root.SetOut(stdout)
	root.SetErr(stderr)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return 0
	}
	e := asError(cmd, err)
	e.print(stderr)
	return e.Code
}
