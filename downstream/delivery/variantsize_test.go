package delivery

import (
	"fmt"
	"strings"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// What takes the place of a variant goes out with the removal of that, within the size
// that clients accept.
func TestDYN1_RES9_RemovedVariantsHaveRoom(t *testing.T) {
	const names, size = 64, 4096
	b := newBed(t, cache.Limits{})
	c := b.join()
	c.size = size
	long := strings.Repeat("x", 200)
	var asked, before, after []string
	for i := range names {
		asked = append(asked, fmt.Sprintf("n%02d{env=prod}", i))
		before = append(before, fmt.Sprintf("+n%02d[env=prod,!%s]@1", i, long))
		after = append(after, fmt.Sprintf("-n%02d[env=prod,!%s]", i, long), fmt.Sprintf("+n%02d[env=prod]@2", i))
	}
	c.wants(eds, asked...)
	b.connect(0)
	for _, words := range [][]string{before, after} {
		b.sends(eds, words...)
		resources, removed := 0, 0
		for more := true; more; {
			var batches []*Batch
			var err error
			if batches, more, err = collectFrom(c.c, never, c.size, 8); err != nil {
				t.Fatal(err)
			}
			for _, batch := range batches {
				resources, removed = resources+batch.Body.Resources(), removed+batch.Body.Removed()
				if got := batch.Body.Size(); got > size {
					t.Errorf("RES-9: a response of %d bytes, want at most %d", got, size)
				}
			}
		}
		want := 0
		if words[0] == after[0] {
			want = names
		}
		if resources != names || removed != want {
			t.Errorf("%d resources and %d removed, want %d and %d", resources, removed, names, want)
		}
	}
}
