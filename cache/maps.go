package cache

// without deletes a key. It returns nil for a map that is empty now: maps do not shrink, and
// a client may live for months after it began with a large one.
func without[K comparable, V any](m map[K]V, key K) map[K]V {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
