package filesource

import (
	"errors"
	"fmt"
	"io/fs"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// Error is what is wrong with a file, without anything of its contents but
// types and the names of resources (OPS-6).
type Error struct {
	File string // as it follows from Config.Path
	// Line and Column count from 1; 0 where they are unknown, as in binary files.
	Line, Column int
	Message      string
	// Err is the cause if the file could not be read, otherwise nil.
	Err error
}

// Error gives "file:line:column: message", without the parts that are unknown.
func (e *Error) Error() string {
	return files.Place(e.File, e.Line, e.Column) + ": " + e.Message
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// errorf makes an Error without a place.
func errorf(format string, args ...any) *Error {
	return &Error{Message: fmt.Sprintf(format, args...)}
}

// unreadable makes an Error of one of the file system.
func unreadable(err error) *Error {
	reason := err
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		reason = pe.Err // the path is told already
	}
	return &Error{Message: "cannot be read: " + reason.Error(), Err: err}
}

// shown quotes a name for a message. What was meant as a name can be anything,
// and of any length.
func shown(name string) string {
	const most = 256
	if len(name) > most {
		return fmt.Sprintf("%q… (%d bytes)", name[:most], len(name))
	}
	return fmt.Sprintf("%q", name)
}
