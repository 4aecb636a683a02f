//go:build !race

package simulate

// underRace reports whether the race detector watches.
const underRace = false
