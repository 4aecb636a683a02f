package cli

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/xdsrelay/xdsrelay/config"
	"github.com/xdsrelay/xdsrelay/internal/logs"
)

// The exit codes beside 0.
const (
	ExitFailure     = 1 // something is wrong: a configuration, a file, an answer
	ExitUsage       = 2 // the command line is wrong, or names a file that cannot be read; the command did not run
	ExitUnreachable = 3 // a relay cannot be reached
)

// Error is an error with an exit code and a hint.
type Error struct {
	Code int
	Err  error  // nil: the command has printed it
	Hint string // the remedy; may be empty
}

func (e *Error) Error() string { return fmt.Sprint(e.Err) }
func (e *Error) Unwrap() error { return e.Err }

// Usage makes the error of a wrong command line.
func Usage(err error, hint string) error { return &Error{Code: ExitUsage, Err: err, Hint: hint} }

// asError converts an error of a command. Commands return an Error. Any other error comes
// from cobra, which did not accept the arguments.
func asError(cmd *cobra.Command, err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if is := together.FindStringSubmatch(err.Error()); is != nil {
		err = fmt.Errorf("%s must all be given, or none: missing %s", flagList(is[1]), flagList(is[2]))
	} else if is := apart.FindStringSubmatch(err.Error()); is != nil {
		err = fmt.Errorf("only one of %s can be given, got %s", flagList(is[1]), flagList(is[2]))
	}
	return &Error{Code: ExitUsage, Err: err, Hint: "see " + cmd.CommandPath() + " --help"}
}

// The words of cobra for groups of flags.
var (
	together = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set they must all be set; missing \[(.*)\]$`)
	apart    = regexp.MustCompile(`^if any flags in the group \[(.*)\] are set none of the others can be; \[(.*)\] were all set$`)
)

// flagList names flags as the command line has them.
func flagList(names string) string { return "--" + strings.ReplaceAll(names, " ", ", --") }

// Action makes a command's function. It converts errors that are not an Error to one with
// ExitFailure.
func Action(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := f(cmd, args)
		if _, known := errors.AsType[*Error](err); known || err == nil {
			return err
		}
		return &Error{Code: ExitFailure, Err: err}
	}
}

// Print prints an error of a command, as [Run] prints the last one.
func Print(w io.Writer, err error) {
	if e, ok := errors.AsType[*Error](err); ok {
		e.print(w)
		return
	}
	(&Error{Err: err}).print(w)
}

// print prints the error. Errors of a configuration begin their lines, because editors
// look for a file and a line there.
func (e *Error) print(w io.Writer) {
	if e.Err == nil {
		return
	}
	prefix := "error: "
	if _, ok := errors.AsType[*config.Error](e.Err); ok {
		prefix = ""
	}
	// If standard error is closed, there is no other place for the error.
	_, _ = fmt.Fprintf(w, "%s%s\n", prefix, logs.PrintableLines(e.Err.Error()))
	if e.Hint != "" {
		_, _ = fmt.Fprintf(w, "hint: %s\n", logs.PrintableLines(e.Hint))
	}
}
