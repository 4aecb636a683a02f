//go:build race

package downstream

// raceEnabled reports whether the race detector is on, which makes everything ten times
// slower.
const raceEnabled = true
