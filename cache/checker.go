package cache

import (
	"errors"
	"fmt"
	"unsafe"
)

// Checker collects faults.
type Checker struct{ errs []error }

// That notes a fault unless ok.
func (c *Checker) That(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}

// Err is everything that is wrong, nil for nothing.
func (c *Checker) Err() error { return errors.Join(c.errs...) }

// SameMemory reports whether two strings begin at the same address.
func SameMemory(a, b string) bool {
	return unsafe.StringData(a) == unsafe.StringData(b) //nolint:gosec // addresses are compared, nothing is read
}
