package snapshot

import (
	"bytes"
	"errors"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/xdsrelay/xdsrelay/cache"
)

// Orders are on the disk when SaveOrders returns, and a crash at any step before leaves those of before.
func TestOrders_GATE4_SUR1(t *testing.T) {
	for seed := range uint64(20) {
		for crash := 0; ; crash++ {
			m := newMachine(rand.New(rand.NewPCG(seed, 1)))
			f := m.open(t)
			if _, err := f.LoadOrders(); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("without orders: %v", err)
			}
			if err := f.SaveOrders([]byte("old")); err != nil {
				t.Fatal(err)
			}
			m.left = crash
			failed := f.SaveOrders([]byte("new"))
			m.left = 0
			m.reboot()
			got, err := m.open(t).LoadOrders()
			if err != nil || string(got) != "new" && (failed == nil || string(got) != "old") {
				t.Fatalf("after a crash at step %d (%v) there is %q, %v", crash, failed, got, err)
			}
			if failed == nil {
				break
			}
		}
	}
}

// A full disk leaves the orders of before, and nothing else.
func TestOrdersFullDisk_GATE4_SUR1(t *testing.T) {
	m := newMachine(rand.New(rand.NewPCG(1, 1)))
	f := m.open(t)
	if err := f.SaveOrders([]byte("old")); err != nil {
		t.Fatal(err)
	}
	m.space = 0
	if err := f.SaveOrders([]byte("new")); !errors.Is(err, errFull) {
		t.Fatalf("a full disk gives %v", err)
	}
	if names := slices.Sorted(maps.Keys(m.names)); !slices.Equal(names, []string{ordersName}) {
		t.Errorf("left behind: %v", names)
	}
	if got, err := f.LoadOrders(); err != nil || string(got) != "old" {
		t.Errorf("the orders of before are %q, %v", got, err)
	}
}

// A file with kinds of names that there are not is damaged.
func TestKinds_SUR1(t *testing.T) {
	unknown := cache.ByName + 1
	table := &cache.Image{Tables: []cache.TableImage{{TypeURL: listenerType, Kind: unknown}}}
	past := imageOfPast(t)
	past.Past.Bursts[0].Before[0].Kind = unknown
	for _, i := range []*cache.Image{table, past} {
		_, _, err := Read(bytes.NewReader(fileOf(t, i)))
		if _, damaged := errors.AsType[*CorruptError](err); !damaged {
			t.Errorf("it is read with %v", err)
		}
	}
}
