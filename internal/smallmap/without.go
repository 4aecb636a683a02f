package smallmap

// Without deletes a key from a map, and returns nil for a map that is empty then: maps do not
// shrink, and a client may live for months after it began with a large one.
func Without[K comparable, V any](m map[K]V, key K) map[K]V {
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
