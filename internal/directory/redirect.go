package directory

import (
	"fmt"

	"github.com/xdsrelay/xdsrelay/internal/wire"
)

// RedirectType is the type URL of a redirect's payload, which may stand in for a
// resource of any type (LOC-1).
const RedirectType = wire.RedirectTypeURL

// Redirect gives the name that a redirect leads to, in the resolved form of
// package keyer. packed is the encoded google.protobuf.Any of a resource of
// [RedirectType]. The error says what is wrong with it; it is not said whether the
// target is of the right type, or leads back.
func Redirect(packed []byte) (target string, err error) {
	typeURL, value, err := openAny(packed)
	if err != nil {
		return "", fmt.Errorf("redirect: %w", err)
	}
	if !sameType(typeURL, RedirectType) {
		return "", fmt.Errorf("a %.256q is no redirect", typeURL)
	}
	if target, err = locatorName(value); err != nil {
		return "", fmt.Errorf("redirect: %w", err)
	}
	return target, nil
}
