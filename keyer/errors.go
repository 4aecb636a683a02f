package keyer

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// maxShown is how many bytes of a name or a part of one errors show.
const maxShown = 256

// NameError says why an xdstp name is refused (NAME-1). Over gRPC it is an
// INVALID_ARGUMENT.
type NameError struct {
	Name   string // shortened if very long
	Offset int    // byte of the name where the trouble is, -1 if unknown
	Reason string
}

// Error shows the name quoted, so that nothing in it can forge a log line.
func (e *NameError) Error() string {
	at := ""
	if e.Offset >= 0 {
		at = " at byte " + strconv.Itoa(e.Offset)
	}
	return fmt.Sprintf("xdstp name %q%s: %s", e.Name, at, e.Reason)
}

func fail(name string, offset int, format string, args ...any) error {
	return &NameError{Name: Shorten(name), Offset: offset, Reason: fmt.Sprintf(format, args...)}
}

// inAlternative reports a [*NameError] of the alternative that stands at byte
// offset of name. The error's own offset would count in the decoded text.
func inAlternative(name string, offset int, err error) error {
	reason := err.Error()
	if inner, ok := errors.AsType[*NameError](err); ok {
		reason = inner.Reason
	}
	return fail(name, offset, "its alternative: %s", reason)
}

// Shorten keeps errors readable, and from holding on to what may be megabytes: of a longer
// text it gives the beginning.
func Shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	// A character cut in two would be shown as an escape.
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
