package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/files"
)

// Everything fails from a crash on.
var (
	errCrashed = errors.New("the machine is off")
	errFull    = errors.New("no space left on device")
)

// machine is a disk that crashes after a number of steps, and then keeps any part of what was not
// synced: written bytes as far as it likes, with rubbish in between, and the first of the changes
// of names.
type machine struct {
	rand  *rand.Rand
	left  int // steps until the crash; negative: there is none
	space int // bytes that fit; negative: any number

	names   map[string]*inode // as programs see them
	durable map[string]*inode
	changes []func(map[string]*inode) // of names, since the last sync
}

type inode struct {
	data   []byte
	synced int // of data
}

func newMachine(r *rand.Rand) *machine {
	return &machine{rand: r, left: -1, space: -1, names: map[string]*inode{}, durable: map[string]*inode{}}
}

func (m *machine) step() error {
	if m.left == 0 {
		return errCrashed
	}
	m.left--
	return nil
}

func (m *machine) change(f func(map[string]*inode)) {
	f(m.names)
	m.changes = append(m.changes, f)
}

// reboot is what the disk has after a crash.
func (m *machine) reboot() {
	for _, f := range m.changes[:m.rand.IntN(len(m.changes)+1)] {
		f(m.durable)
	}
	m.changes, m.left = nil, -1
	for _, i := range m.durable {
		kept := i.synced + m.rand.IntN(len(i.data)-i.synced+1)
		i.data = i.data[:kept]
		for at := i.synced; at < kept; at++ {
			if m.rand.IntN(50) == 0 {
				i.data[at] = byte(m.rand.Uint32())
			}
		}
		i.synced = kept
	}
	m.names = maps.Clone(m.durable)
}

func (m *machine) read(name string) (io.ReadCloser, error) {
	i := m.names[name]
	if i == nil {
		return nil, fmt.Errorf("%s: %w", name, fs.ErrNotExist)
	}
	return io.NopCloser(bytes.NewReader(i.data)), m.step()
}

func (m *machine) Create(name string) (files.File, error) {
	if err := m.step(); err != nil {
		return nil, err
	}
	i := new(inode)
	m.change(func(names map[string]*inode) { names[name] = i })
	return &written{m, i}, nil
}

func (m *machine) Rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	m.change(func(names map[string]*inode) {
		names[to] = names[from]
		delete(names, from)
	})
	return nil
}

func (m *machine) Remove(name string) error {
	if err := m.step(); err != nil {
		return err
	}
	m.change(func(names map[string]*inode) { delete(names, name) })
	return nil
}

func (m *machine) List() (listed []files.Info, err error) {
	for name, i := range m.names {
		listed = append(listed, files.Info{Name: name, Size: int64(len(i.data)), Modified: time.Now()})
	}
	return listed, m.step()
}

func (m *machine) Sync() error {
	if err := m.step(); err != nil {
		return err
	}
	m.durable, m.changes = maps.Clone(m.names), nil
	return nil
}

func (m *machine) Close() error { return nil }

type written struct {
	machine *machine
	inode   *inode
}

func (w *written) Write(b []byte) (int, error) {
	if err := w.machine.step(); err != nil {
		return 0, err
	}
	if w.machine.space >= 0 && len(b) > w.machine.space {
		return 0, errFull
	}
	w.inode.data = append(w.inode.data, b...)
	return len(b), nil
}

func (w *written) Sync() error {
	err := w.machine.step()
	if err == nil {
		w.inode.synced = len(w.inode.data)
	}
	return err
}

func (w *written) Close() error { return nil }

// open opens the folder of a machine.
func (m *machine) open(t testing.TB) *Folder {
	t.Helper()
	f, err := Open(opener{m}, "")
	if err != nil {
		t.Fatalf("the folder cannot be opened after a crash: %v", err)
	}
	return f
}

// opener tells the two ways to open apart: a folder opens files, a disk opens folders.
type opener struct{ machine *machine }

func (o opener) Open(string) (files.Folder, error) { return folderOf{o.machine}, nil }
func (o opener) Look(string) (files.Folder, error) { return folderOf{o.machine}, nil }

type folderOf struct{ *machine }

func (f folderOf) Open(name string) (io.ReadCloser, error) { return f.read(name) }

// states are the numbers of the states that a file has resources of.
func states(t *testing.T, i *cache.Image) []string {
	t.Helper()
	seen := map[string]bool{}
	for _, table := range i.Tables {
		for _, r := range table.Resources {
			seen[r.Resource.Version] = true
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// A relay that is killed at any moment starts again, with one whole state of each store: the last
// that was written, or the one that was being written.
func TestSUR1Crashes(t *testing.T) {
	const crashes = 1000
	aside := 0
	for seed := range uint64(crashes) {
		r := rand.New(rand.NewPCG(seed, 17))
		m := newMachine(r)
		stores := []string{ID("a"), ID("b"), ID("c")}
		written, begun := map[string]int{}, map[string]int{}
		f := m.open(t)
		m.left = 1 + r.IntN(120)
		for state := 1; m.left != 0; state++ {
			id := stores[r.IntN(len(stores))]
			begun[id] = state
			h := &Header{ID: id, Upstream: "u", Written: time.Unix(int64(state), 0)}
			if _, err := f.Save(h, imageOfState(t, state, 1+r.IntN(40))); err == nil {
				written[id] = state
			} else if !errors.Is(err, errCrashed) {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		m.reboot()
		f = m.open(t)
		for _, id := range stores {
			h, i, err := f.Load(id)
			if errors.Is(err, fs.ErrNotExist) && written[id] == 0 {
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			got := states(t, i)
			if len(got) != 1 || (got[0] != fmt.Sprint(written[id]) && got[0] != fmt.Sprint(begun[id])) || fmt.Sprint(h.Written.Unix()) != got[0] {
				t.Fatalf("seed %d: states %v of %d, written was %d, being written %d", seed, got, h.Written.Unix(), written[id], begun[id])
			}
		}
		files, err := m.List()
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if !slices.ContainsFunc(stores, func(id string) bool { return file.Name == id+suffix }) {
				aside++
			}
		}
	}
	if aside > 0 {
		t.Errorf("%d files were left behind", aside)
	}
}

// A disk that loses what was synced costs the store that file, and no more.
func TestSUR1LyingDisk(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 18))
		m := newMachine(r)
		f := m.open(t)
		a, b := ID("a"), ID("b")
		for _, id := range []string{a, b} {
			if _, err := f.Save(&Header{ID: id}, imageOfState(t, 1, 30)); err != nil {
				t.Fatal(err)
			}
		}
		damaged := m.names[a+suffix]
		if r.IntN(2) == 0 {
			damaged.data = damaged.data[:r.IntN(len(damaged.data))]
		} else {
			damaged.data[r.IntN(len(damaged.data))] ^= byte(1 + r.IntN(255))
		}
		f = m.open(t)
		_, _, err := f.Load(a)
		_, corrupt := errors.AsType[*CorruptError](err)
		_, other := errors.AsType[*VersionError](err)
		if !corrupt && !other {
			t.Fatalf("seed %d: a damaged file gives %v", seed, err)
		}
		if corrupt {
			if _, _, err := f.Load(a); !errors.Is(err, fs.ErrNotExist) || m.names[a+putAsideName] == nil {
				t.Fatalf("seed %d: not put aside: %v", seed, err)
			}
		}
		if _, i, err := f.Load(b); err != nil || len(i.Tables[0].Resources) != 30 {
			t.Fatalf("seed %d: the other store: %v", seed, err)
		}
	}
}

// A full disk leaves the file of before, and nothing else.
func TestSUR1FullDisk(t *testing.T) {
	m := newMachine(rand.New(rand.NewPCG(1, 1)))
	f := m.open(t)
	id := ID("a")
	if _, err := f.Save(&Header{ID: id}, imageOfState(t, 1, 5)); err != nil {
		t.Fatal(err)
	}
	m.space = 0
	if _, err := f.Save(&Header{ID: id}, imageOfState(t, 2, 5)); !errors.Is(err, errFull) {
		t.Fatalf("a full disk gives %v", err)
	}
	if len(m.names) != 1 {
		t.Errorf("left behind: %v", slices.Sorted(maps.Keys(m.names)))
	}
	if _, i, err := f.Load(id); err != nil || !slices.Equal(states(t, i), []string{"1"}) {
		t.Errorf("the file of before: %v", err)
	}
}
