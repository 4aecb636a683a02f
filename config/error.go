package config

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// Error is one thing that is wrong with a configuration.
type Error struct {
	// File is where the value was given: the file's name as it was passed in, an
	// environment variable's name, or a flag with its dashes. Empty for a
	// configuration that was built by hand.
	File string
	// Line and Column count from 1; 0 outside of a file.
	Line, Column int
	// Path is the key, as in "upstreams[0].endpoints[1]"; empty for the file as a whole.
	Path string
	// Message says what is wrong and what is expected.
	Message string
}

// Error gives "file:line:column: path: message", without the parts that are unknown.
func (e *Error) Error() string {
	text := e.Message
	if e.Path != "" {
		text = e.Path + ": " + text
	}
	if e.File != "" {
		text = files.Place(e.File, e.Line, e.Column) + ": " + text
	}
	return text
}

// mismatchError says that one thing was expected and another found. The types'
// UnmarshalText gives it; the decoder, which knows what stands in the file where
// no text does, fills that in.
type mismatchError struct{ want, got, meant string }

func (e *mismatchError) Error() string {
	text := "expected " + e.want + ", got " + e.got
	if e.meant != "" {
		text += ", did you mean " + e.meant + "?"
	}
	return text
}

// mismatch makes the error of an UnmarshalText.
func mismatch(want string, got []byte) error { return mismatchFor(want, got, "") }

// mismatchFor is mismatch with what was probably meant, "" if nobody knows.
func mismatchFor(want string, got []byte, meant string) error {
	return &mismatchError{want, strconv.Quote(string(got)), meant}
}

// origins says where the value of each path was given. A list or a map has an
// entry of its own beside those of its members; "" is the file as a whole.
type origins map[string]origin

type origin struct {
	file         string
	line, column int
}

// find gives the origin of path or, for what was not given, of the nearest
// thing around it that was: that is where the missing key belongs.
func (o origins) find(path string) origin {
	for {
		if at, ok := o[path]; ok || path == "" {
			return at
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
}

// errorAt makes an Error that points at path.
func (o origins) errorAt(path, format string, args ...any) *Error {
	at := o.find(path)
	return &Error{File: at.file, Line: at.line, Column: at.column, Path: path, Message: fmt.Sprintf(format, args...)}
}

// join sorts errs by line, those from outside of the file last, and makes one
// error of them with errors.Join; nil if there are none.
func join(errs []*Error) error {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		if (a.Line == 0) != (b.Line == 0) {
			return cmp.Compare(b.Line, a.Line)
		}
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	all := make([]error, len(errs))
	for i, e := range errs {
		all[i] = e
	}
	return errors.Join(all...)
}

// consequences drops from later what only follows from earlier: a key that
// could not be read is not also reported as missing or out of range. blamed are
// the paths that earlier errors concern.
func consequences(later []*Error, blamed []string) []*Error {
	return slices.DeleteFunc(later, func(e *Error) bool {
		return slices.ContainsFunc(blamed, func(path string) bool {
			return within(e.Path, path) || within(path, e.Path)
		})
	})
}

// within says whether path is outer or lies in it.
func within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (outer == "" || rest == "" || rest[0] == '.' || rest[0] == '[')
}
