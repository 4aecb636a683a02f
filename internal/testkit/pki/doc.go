// Package pki makes certificates for tests: a certificate authority that
// lives for one test, what it issues for both sides of a mutual TLS connection,
// and folders with the PEM files of it, as programs that rotate certificates
// keep them.
//
// It is the one place where tests get certificates from. It reads and verifies
// none: how the relay does that is up to package credentials and to what is tested.
// Whatever fails ends the test. The time is time.Now's, that of the bubble in a
// synctest bubble. Only tests and the benchmarks' program import it.
package pki
