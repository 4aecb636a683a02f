// Package sharing works out what the aggregation rules come to for a whole fleet: how
// many scopes, and so streams upstream, its clients need, who is alone in one, whom a
// rule fails for, and in what the clients of a scope differ that no rule looks at.
//
// The explain command surveys a recorded fleet with it, the admin port the live one;
// both give a [Result]. The package decides nothing: that is package rules. It does no
// I/O, and a [Survey] is used by one goroutine at a time.
package sharing
