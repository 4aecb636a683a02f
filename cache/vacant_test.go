package cache

import "testing"

// Names without an answer take what their bytes and an overhead say. Only beyond the bound the longest idle one goes (LIM-3).
func TestVacantBound_LIM3(t *testing.T) {
	var v vacant[int]
	v.add(1, maxVacant-2*vacantOverhead-1)
	v.add(2, 1)
	if _, is := v.beyond(); is || v.bytes != maxVacant {
		t.Errorf("with %d bytes of %d one has to go", v.bytes, maxVacant)
	}
	v.remove(2)
	v.add(2, 2)
	if name, is := v.beyond(); !is || name != 1 {
		t.Errorf("with %d bytes of %d %d has to go: %t", v.bytes, maxVacant, name, is)
	}
}
