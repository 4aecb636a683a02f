// Package server runs the servers that are compared, each in a process of its own: the
// program executes itself anew, and tells the child over its standard input what to do,
// line by line in JSON ([Start], [Process]). The child's side is [Main]. A child ends when
// its standard input does, so none is left behind.
//
// What a process takes of the machine is read from the outside ([Process.CPU],
// [Process.Memory]).
//
// It needs Linux, for /proc and for the clock of another process.
package server
