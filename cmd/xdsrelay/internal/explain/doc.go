// Package explain says what the relay would do with a client, and why (AGG-5): which
// aggregation rule decides, which scope and upstream follow, and what the control plane
// sees. It also surveys recorded fleets. It is what the command of that name does, and
// decides nothing itself: package rules and package relay are asked.
package explain
