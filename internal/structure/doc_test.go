// Package structure has tests of how the code is built, not of what it does: which
// package imports which, and what the installed program links. "make shape" prints
// figures by which no test fails (internal/structure/shape).
package structure
