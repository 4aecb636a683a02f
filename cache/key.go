package cache

import (
	"strings"
	"unsafe"
)

// A resource's name lies in its bytes, and there the key of its entry lies too, where
// both are the same and nobody asks for the name: a member of a glob has its name in
// memory once. The key moves with the content, in the entry and in the table, for
// otherwise it would keep the bytes of what it came with. Whoever subscribes to the
// name, or asks a server for it, refers to the key for longer than that.

// lend gives e a key that lasts as long as what it holds now. It is called after that
// changed, and after somebody asked for e by name.
func (t *table) lend(e *entry) {
	switch {
	case e.res != nil && !e.named() && e.res.Name == e.key:
		e.key, e.lent = e.res.Name, true
	case e.lent:
		e.key, e.lent = strings.Clone(e.key), false
	default:
		return
	}
	t.entries[e.key] = e // has the table's key moved too
}

// sameMemory reports whether two strings begin at the same address, for Check.
func sameMemory(a, b string) bool {
	return unsafe.StringData(a) == unsafe.StringData(b) //nolint:gosec // addresses are compared, nothing is read
}

// named reports whether anybody asks for e by its name.
func (e *entry) named() bool { return len(e.subs) > 0 || e.interest != nil }
