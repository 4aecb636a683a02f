// Package digest tells contents apart without keeping them.
//
// A [Sum] is the digest of a set of resources. It is the same in every replica of the
// relay, so clients are shown it as a version (ACK-4). A [History] remembers the versions
// that one resource had before and what each of them stood for, so that a version that
// a server uses again for other content is found out. Its hashes mean something in one
// process only: a [Hasher] makes them from a random seed.
//
// The package knows no tables and takes no locks. Package cache decides which contents
// belong together and when they change.
package digest
