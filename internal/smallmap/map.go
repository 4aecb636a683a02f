// Package smallmap has a map for what there is mostly one of, or two: of a client's types, of the
// stores that serve it. There are thousands of clients, and the smallest of Go's maps takes
// the memory of eight entries.
package smallmap

import "iter"

// most is how many entries are kept in a list: as many as are compared in less time than it
// takes to hash a key.
const most = 8

// Map is a map that has few entries as a rule, and may have many. The zero Map is empty. It
// must not be copied, nor used by several goroutines at once.
type Map[K comparable, V any] struct {
	list []entry[K, V] // all of them, until there were more than most
	many map[K]V       // all of them since
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

// Get gives the value of a key, the zero value if it has none.
func (m *Map[K, V]) Get(key K) V {
	v, _ := m.Lookup(key)
	return v
}

// Lookup is Get, and tells whether the key has a value.
func (m *Map[K, V]) Lookup(key K) (V, bool) {
	if m.many != nil {
		v, ok := m.many[key]
		return v, ok
	}
	if i := m.find(key); i >= 0 {
		return m.list[i].value, true
	}
	var none V
	return none, false
}

func (m *Map[K, V]) find(key K) int {
	for i := range m.list {
		if m.list[i].key == key {
			return i
		}
	}
	return -1
}

// Set gives a key a value.
func (m *Map[K, V]) Set(key K, value V) {
	if m.many != nil {
		m.many[key] = value
		return
	}
	if i := m.find(key); i >= 0 {
		m.list[i].value = value
		return
	}
	if len(m.list) < most {
		m.list = append(m.list, entry[K, V]{key, value})
		return
	}
	m.many = make(map[K]V, 2*most)
	for _, e := range m.list {
		m.many[e.key] = e.value
	}
	m.many[key], m.list = value, nil
}

// Clear takes everything out.
func (m *Map[K, V]) Clear() { m.list, m.many = nil, nil }

// Len is the number of entries.
func (m *Map[K, V]) Len() int { return len(m.list) + len(m.many) }

// All goes over the entries, in no order. The one at hand may be set meanwhile, and no other.
func (m *Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		for k, v := range m.many {
			if !yield(k, v) {
				return
			}
		}
		for _, e := range m.list {
			if !yield(e.key, e.value) {
				return
			}
		}
	}
}
