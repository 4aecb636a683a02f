package downstream

const (
	// nameWeight is about what a subscription takes beside the bytes of its name: less if others subscribe to the name
	// too, more if nobody does.
	nameWeight = 256
	// freeNames is up to what weight the names of one stream do not count.
	freeNames = 64 << 10
	// freeRefused is up to what weight the refused names of one stream are remembered though there is no room.
	freeRefused = 16 << 10
)

// weightOf returns what names weigh.
func weightOf(names, bytes int) int { return names*nameWeight + bytes }

// allowance is for how many names there is room, for how many bytes of names (LIM-1), and for what names weigh in
// all (LIM-3). Allowances may have one total.
type allowance struct {
	names, bytes int
	total        *int // nil: no limit
	free         int  // weight of names beside total
}

// spend takes the room of one name, and reports whether there is any.
func (a *allowance) spend(bytes int) bool {
	if a.names <= 0 || a.bytes < bytes || !a.weigh(weightOf(1, bytes)) {
		return false
	}
	a.names--
	a.bytes -= bytes
	return true
}

// weigh takes a weight out of what is free, or of the total, and reports whether there was as much.
func (a *allowance) weigh(weight int) bool {
	switch {
	case a.total == nil:
	case a.free >= weight:
		a.free -= weight
	case *a.total < weight:
		return false
	default:
		*a.total -= weight
	}
	return true
}

// add gives room for more names.
func (a *allowance) add(names, bytes int) {
	a.names += names
	a.bytes += bytes
	if a.total != nil {
		*a.total += weightOf(names, bytes)
	}
}

// has reports whether there is room for all of these names.
func (a *allowance) has(names []string) bool {
	bytes := bytesIn(names)
	return len(names) <= a.names && bytes <= a.bytes && (a.total == nil || weightOf(len(names), bytes) <= *a.total)
}

// bytesIn returns how many bytes names have.
func bytesIn(names []string) (n int) {
	for _, name := range names {
		n += len(name)
	}
	return n
}
