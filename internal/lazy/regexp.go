// Package lazy has what most processes never need, and what is large once it is made.
package lazy

import (
	"regexp"
	"sync"
)

// Regexp returns a function that gives a regular expression. It is compiled at the first call, which panics if it is
// none, as [regexp.MustCompile] does.
func Regexp(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
