//go:build !race

package integration

// raceEnabled reports whether the race detector is on, which makes everything ten times
// slower.
const raceEnabled = false
