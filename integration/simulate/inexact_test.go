//go:build !exact

package simulate

// exact reports whether a seed decides nearly everything (exact.sh).
const exact = false

// seedRuntime does nothing: the order of goroutines, of select and of maps stays to chance.
func seedRuntime(uint64, uint64) {}
