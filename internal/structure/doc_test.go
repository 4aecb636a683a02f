// Package structure has tests of how the code is built, not of what it does: which
// package imports which, what the installed program links, and how large types, files
// and functions are.
//
// The limits are a ratchet. A change that makes a number worse fails; a change that
// makes a number better lowers the limit.
package structure
