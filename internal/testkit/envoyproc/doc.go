// Package envoyproc runs real Envoys for tests, each in a process of its own with a
// bootstrap of its own, and reads their admin ports: what an Envoy has is what it
// says there.
//
// An Envoy is killed when its test ends, and its log is shown if the test failed.
// The binary is not in this module: the environment variable [Variable] names it,
// and "make integration" installs one.
package envoyproc
