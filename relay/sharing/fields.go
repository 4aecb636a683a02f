package sharing

import "slices"

const (
	// maxFields is how many fields are kept of a scope: names of metadata are the
	// clients' own, and there is no end to them.
	maxFields = 64
	// maxField bounds the name of a field, in bytes.
	maxField = 256
)

// andMore stands for the fields that [rules.Set.Unmentioned] does not list.
const andMore = "…"

// Fields is a bounded set of names of fields, sorted. The zero Fields is empty.
type Fields struct {
	Names []string
	More  bool // some found no room
}

// Full reports that there is no room for another name: nodes need not be compared any
// more.
func (f *Fields) Full() bool { return len(f.Names) == maxFields }

// Add puts names in.
func (f *Fields) Add(names []string) {
	for _, name := range names {
		if name == andMore {
			f.More = true
			continue
		}
		name = clip(name, maxField)
		i, there := slices.BinarySearch(f.Names, name)
		switch {
		case there:
		case len(f.Names) == maxFields:
			f.More = true
		default:
			f.Names = slices.Insert(f.Names, i, name)
		}
	}
}

// clip bounds what clients and their nodes bring into a text.
func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && s[most]&0xc0 == 0x80 { // not in the middle of a character
		most--
	}
	return s[:most] + "…"
}
