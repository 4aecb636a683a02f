package downstream

// allowance is for how many names there is room, and for how many bytes of names (LIM-1).
type allowance struct{ names, bytes int }

// spend takes the room of one name, and reports whether there is any.
func (a *allowance) spend(bytes int) bool {
	if a.names <= 0 || a.bytes < bytes {
		return false
	}
	a.names--
	a.bytes -= bytes
	return true
}

// has reports whether there is room for all of these names.
func (a *allowance) has(names []string) bool {
	left := a.bytes
	for _, name := range names {
		left -= len(name)
	}
	return len(names) <= a.names && left >= 0
}
