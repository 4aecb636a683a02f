package simulate

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// storage is the disk of one host. It implements files.Disk for one process after the
// other. A crash keeps what was synced, and of the rest what the seed says: any part of a
// file that was written, and any of the changes of names, each as a whole.
type storage struct {
	seed uint64

	mu      sync.Mutex
	folders map[string]*directory
	life    int  // crashes so far
	full    bool // nothing can be written
	leak    bool // what is not for a disk was written
}

// directory is a folder as the processes see it, and as it is on the disk.
type directory struct {
	names   map[string]*inode
	durable map[string]*inode
	changes []renaming // since the last sync
	holder  *session   // who has locked it; nil: nobody
}

// inode is a file.
type inode struct {
	data     []byte
	synced   []byte
	modified time.Time
}

// renaming is one change of names: a file got a name, or (nil) a name is free, and with it
// the name that the file had before.
type renaming struct {
	name string
	file *inode
	was  string
}

func newStorage(seed uint64) *storage {
	return &storage{seed: seed, folders: make(map[string]*directory)}
}

// crash is what becomes of the disk when the power goes. Who had it open writes nothing
// more.
func (s *storage) crash() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	for path, d := range s.folders {
		for i, c := range d.changes {
			if chance(s.seed, path, "names", s.life, i)%2 == 0 {
				apply(d.durable, c)
			}
		}
		for name, f := range d.durable {
			s.tearLocked(f, path+name)
		}
		d.names, d.changes, d.holder = maps.Clone(d.durable), nil, nil
	}
}

// tearLocked leaves of what was not synced a part, nothing, or zeros of its length.
func (s *storage) tearLocked(f *inode, path string) {
	if bytes.Equal(f.data, f.synced) {
		return
	}
	x := chance(s.seed, path, "data", s.life)
	keep := int(x / 4 % uint64(len(f.data)+1))
	switch x % 4 {
	case 0:
		f.data = slices.Clone(f.synced)
	case 1: // the length was written and the blocks were not
		f.data = append(slices.Clone(f.data[:keep]), make([]byte, len(f.data)-keep)...)
	default:
		f.data = slices.Clone(f.data[:keep])
	}
	f.synced = slices.Clone(f.data)
}

// wipe empties the disk. No process has it open.
func (s *storage) wipe() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	clear(s.folders)
}

// fill has writing fail, or work again.
func (s *storage) fill(full bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.full = full
}

// image is what is on the disk now, and restore puts it back: an older state.
func (s *storage) image() map[string]map[string][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]map[string][]byte)
	for path, d := range s.folders {
		all[path] = make(map[string][]byte)
		for name, f := range d.durable {
			all[path][name] = slices.Clone(f.synced)
		}
	}
	return all
}

func (s *storage) restore(image map[string]map[string][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.life++
	clear(s.folders)
	for path, files := range image {
		d := &directory{names: make(map[string]*inode), durable: make(map[string]*inode)}
		for name, data := range files {
			d.durable[name] = &inode{data: slices.Clone(data), synced: data, modified: time.Now()}
		}
		d.names = maps.Clone(d.durable)
		s.folders[path] = d
	}
}

// leaked reports whether anybody ever wrote what is not for a disk.
func (s *storage) leaked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leak
}

func apply(names map[string]*inode, c renaming) {
	if c.file == nil {
		delete(names, c.name)
	} else {
		names[c.name] = c.file
	}
	delete(names, c.was)
}

// Open implements files.Disk.
func (s *storage) Open(path string) (files.Folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.folders[path]
	if d == nil {
		d = &directory{names: make(map[string]*inode), durable: make(map[string]*inode)}
		s.folders[path] = d
	}
	if d.holder != nil {
		return nil, files.ErrLocked
	}
	d.holder = &session{storage: s, dir: d, life: s.life}
	return d.holder, nil
}

// Look implements files.Disk.
func (s *storage) Look(path string) (files.Folder, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.folders[path]
	if d == nil {
		return nil, fs.ErrNotExist
	}
	return &session{storage: s, dir: d, life: s.life}, nil
}

// session is a folder that a process has open. It implements files.Folder.
type session struct {
	storage *storage
	dir     *directory
	life    int
}

// errDead is what a process is told that is not there any more.
var errDead = errors.New("the process has ended")

// change does something to the folder, unless its process is dead or the disk full.
func (f *session) change(writes bool, do func() error) error {
	f.storage.mu.Lock()
	defer f.storage.mu.Unlock()
	switch {
	case f.life != f.storage.life:
		return errDead
	case writes && f.storage.full:
		return syscall.ENOSPC
	}
	return do()
}

func (f *session) set(name string, file *inode, was string) {
	c := renaming{name, file, was}
	apply(f.dir.names, c)
	f.dir.changes = append(f.dir.changes, c)
}

func (f *session) Open(name string) (io.ReadCloser, error) {
	var r io.ReadCloser
	err := f.change(false, func() error {
		file := f.dir.names[name]
		if file == nil {
			return fs.ErrNotExist
		}
		r = io.NopCloser(bytes.NewReader(slices.Clone(file.data)))
		return nil
	})
	return r, err
}

func (f *session) Create(name string) (files.File, error) {
	file := &inode{modified: time.Now()}
	err := f.change(true, func() error {
		f.set(name, file, "")
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &openFile{f, file}, nil
}

func (f *session) Rename(from, to string) error {
	return f.change(true, func() error {
		file := f.dir.names[from]
		if file == nil {
			return fs.ErrNotExist
		}
		f.set(to, file, from)
		return nil
	})
}

func (f *session) Remove(name string) error {
	return f.change(false, func() error {
		if f.dir.names[name] == nil {
			return fs.ErrNotExist
		}
		f.set(name, nil, "")
		return nil
	})
}

func (f *session) List() ([]files.Info, error) {
	var all []files.Info
	err := f.change(false, func() error {
		for name, file := range f.dir.names {
			all = append(all, files.Info{Name: name, Size: int64(len(file.data)), Modified: file.modified})
		}
		slices.SortFunc(all, func(a, b files.Info) int { return cmp.Compare(a.Name, b.Name) })
		return nil
	})
	return all, err
}

func (f *session) Sync() error {
	return f.change(true, func() error {
		f.dir.durable, f.dir.changes = maps.Clone(f.dir.names), nil
		return nil
	})
}

func (f *session) Close() error {
	return f.change(false, func() error {
		if f.dir.holder == f {
			f.dir.holder = nil
		}
		return nil
	})
}

// openFile implements files.File.
type openFile struct {
	*session
	file *inode
}

func (w *openFile) Write(b []byte) (int, error) {
	err := w.change(true, func() error {
		w.file.data = append(w.file.data, b...)
		w.file.modified = time.Now()
		w.storage.leak = w.storage.leak || bytes.Contains(w.file.data, []byte(secretMark))
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(b), nil
}

func (w *openFile) Sync() error {
	return w.change(true, func() error {
		w.file.synced = slices.Clone(w.file.data)
		return nil
	})
}

func (w *openFile) Close() error { return nil }
