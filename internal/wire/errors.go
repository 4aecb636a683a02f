package wire

import (
	"errors"
	"fmt"
)

// ErrInvalidUTF8 is wrapped by a [DecodeError] whose field is a string that is
// not valid UTF-8. proto.Unmarshal refuses it too.
var ErrInvalidUTF8 = errors.New("invalid UTF-8")

// errFieldNumber is what a tag with a field number outside of what protobuf allows gives.
var errFieldNumber = errors.New("invalid field number")

// DecodeError says that an envelope could not be decoded, and where. Its text
// is fit for the error_detail of a NACK (ACK-6).
type DecodeError struct {
	// Field is the path of the field, such as "resources[3].version"; for a
	// broken tag it is the message that holds it, "" for the response itself.
	Field string
	Err   error
}

func (e *DecodeError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("wire: cannot decode: %v", e.Err)
	}
	return fmt.Sprintf("wire: cannot decode %s: %v", e.Field, e.Err)
}

// Unwrap gives the cause.
func (e *DecodeError) Unwrap() error { return e.Err }

// within puts the path of the holding field in front of err's path. It
// returns a *DecodeError, or nil if err is nil.
func within(field string, err error) error {
	if err == nil {
		return nil
	}
	inner, ok := errors.AsType[*DecodeError](err)
	switch {
	case !ok:
		return &DecodeError{Field: field, Err: err}
	case inner.Field == "":
		return &DecodeError{Field: field, Err: inner.Err}
	case field == "":
		return inner
	default:
		return &DecodeError{Field: field + "." + inner.Field, Err: inner.Err}
	}
}
