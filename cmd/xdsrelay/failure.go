package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/config"
)

// The exit codes beside 0.
const (
	exitFailure = 1 // it was tried and did not work, or validate found something
	exitUsage   = 2 // the command line or the configuration is wrong: nothing was tried
)

// failure is an error with what it means for the process.
type failure struct {
	code int
	err  error  // nil: it was told already
	hint string // what to do about it; may be empty
}

func (f *failure) Error() string { return fmt.Sprint(f.err) }
func (f *failure) Unwrap() error { return f.err }

// usage makes the failure of a command line that cannot be carried out.
func usage(err error, hint string) error { return &failure{code: exitUsage, err: err, hint: hint} }

// asFailure says what an error of a command means. Commands give failures; any
// other error comes from cobra, which could not make sense of the arguments.
func asFailure(cmd *cobra.Command, err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	return &failure{code: exitUsage, err: err, hint: "see " + cmd.CommandPath() + " --help"}
}

// action makes a command's function: errors that are no failures yet become
// those of something that was tried.
func action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if _, known := errors.AsType[*failure](err); known || err == nil {
			return err
		}
		return &failure{code: exitFailure, err: err}
	}
}

// print tells of the failure, once. Errors of a configuration stand at the
// beginning of their lines, where editors look for a file and a line.
func (f *failure) print(w io.Writer) {
	if f.err == nil {
		return
	}
	prefix := "error: "
	if _, ok := errors.AsType[*config.Error](f.err); ok {
		prefix = ""
	}
	// Where standard error is gone there is nobody left to tell.
	_, _ = fmt.Fprintf(w, "%s%v\n", prefix, f.err)
	if f.hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", f.hint)
	}
}
