package xdsclient

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/keyer"
)

// UnservedError says that a variant has no way to ask for a type. No server can
// change that.
type UnservedError struct {
	TypeURL string
	Variant string // such as "incremental per-type"
}

func (e *UnservedError) Error() string {
	return fmt.Sprintf("%s cannot be asked for: there is no %s service for it", keyer.ShortName(e.TypeURL), e.Variant)
}
