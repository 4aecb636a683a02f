// Package simulate plays a whole installation in one process and on one clock: two
// control planes, a relay with a disk, in some seeds a second one that is its peer, a second
// tier, and twenty clients of all forms.
// What a seed decides goes wrong goes wrong: connections, processes, disks, times.
//
// Everything that is the product's runs as it is. Three things are replaced: the clock,
// by a testing/synctest bubble; connections, by a network of its own (network_test.go);
// and the file system, by a disk that tears and loses writes (disk_test.go).
//
// A seed is a list of operations (plan_test.go) and a few choices about the parties. Any
// part of the list can be played, which is how a list that fails is shortened. After the
// last operation all is mended, one control plane falls silent and the other one has news
// (failover_test.go), and all is mended again. Each client must hold what a client of the
// control planes would hold (judge_test.go), and each disk what the relay holds
// (inspect_test.go). Some things must hold at all times: see there.
//
// All of it is in tests. integration/README.md says how to play seeds.
package simulate
