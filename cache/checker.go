package cache

import "fmt"

// checker collects what is wrong.
type checker struct{ errs []error }

func (c *checker) that(ok bool, format string, args ...any) {
	if !ok {
		c.errs = append(c.errs, fmt.Errorf(format, args...))
	}
}
