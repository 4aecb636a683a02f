package snapshot

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/xdsrelay/xdsrelay/cache"
	"github.com/xdsrelay/xdsrelay/internal/files"
)

// Names of files, behind the ID of their store.
const (
	suffix       = ".snapshot"
	unfinished   = ".tmp"
	putAsideName = ".corrupt"
)

// MaxAge is how long a file of a store stays that nobody asks for.
const MaxAge = 7 * 24 * time.Hour

// ID returns the identity of a store on the disk: the same for the same parts, in every process.
// It is a hash. Nothing of the parts can be read from it.
func ID(parts ...string) string {
	h := sha256.New()
	for _, p := range parts {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(p)))) // a hash takes everything
		_, _ = h.Write([]byte(p))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Folder has the snapshots of all stores. Its methods may be called from any goroutine.
type Folder struct {
	folder files.Folder // immutable

	turn   chan struct{} // has one element while a file is written or read
	closed bool          // guarded by turn
}

// patience is how long an operation may take. A disk that hangs must not keep sessions from their
// control planes, nor the relay from its end.
const patience = 15 * time.Second

// ErrHangs is that the disk did not answer in time. What was begun may still end.
var ErrHangs = errors.New("the disk does not answer")

// do carries out an operation on the folder, one at a time. The error is ErrHangs if the operation,
// or those before it, take too long.
func do[T any](f *Folder, operation func() (T, error)) (value T, err error) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case f.turn <- struct{}{}:
	case <-timer.C:
		return value, ErrHangs
	}
	type result struct {
		value    T
		err      error
		panicked any
	}
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			r.panicked = recover()
			<-f.turn
			done <- r
		}()
		if f.closed {
			r.err = errClosed
			return
		}
		r.value, r.err = operation()
	}()
	select {
	case r := <-done:
		if r.panicked != nil {
			panic(r.panicked) // it is the caller's to contain
		}
		return r.value, r.err
	case <-timer.C:
		return value, ErrHangs
	}
}

// Open opens the folder of a relay's snapshots, and makes it if there is none. The error is
// files.ErrLocked if another process has it.
func Open(d files.Disk, path string) (*Folder, error) {
	f, err := d.Open(path)
	if err != nil {
		return nil, err
	}
	s := &Folder{folder: f, turn: make(chan struct{}, 1)}
	if err := s.sweep(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// sweep removes files that a crash left unfinished.
func (f *Folder) sweep() error {
	files, err := f.folder.List()
	if err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name, unfinished) {
			if err := f.folder.Remove(file.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
	}
	return nil
}

// errClosed is that the relay ends.
var errClosed = errors.New("the folder is closed")

// Close releases the folder.
func (f *Folder) Close() error {
	_, err := do(f, func() (struct{}, error) {
		f.closed = true
		return struct{}{}, f.folder.Close()
	})
	if errors.Is(err, errClosed) {
		return nil
	}
	return err
}

// Load reads the snapshot of a store. The error is fs.ErrNotExist if there is none. A file that is
// corrupt is put aside under another name, and never read again; the error is a *CorruptError.
func (f *Folder) Load(id string) (*Header, *cache.Image, error) {
	type loaded struct {
		header *Header
		image  *cache.Image
	}
	l, err := do(f, func() (l loaded, err error) {
		l.header, l.image, err = f.load(id)
		return l, err
	})
	return l.header, l.image, err
}

func (f *Folder) load(id string) (*Header, *cache.Image, error) {
	file, err := f.folder.Open(id + suffix)
	if err != nil {
		return nil, nil, err
	}
	h, i, err := Read(file)
	err = errors.Join(err, file.Close())
	if err == nil && h.ID != id {
		err = corrupt("it is of another store")
	}
	if bad, ok := errors.AsType[*CorruptError](err); ok {
		if aside := f.folder.Rename(id+suffix, id+putAsideName); aside != nil {
			return nil, nil, fmt.Errorf("%w, and cannot be put aside: %w", bad, aside)
		}
		return nil, nil, bad
	}
	if err != nil {
		return nil, nil, err
	}
	return h, i, nil
}

// PutAside gives the snapshot of a store another name, under which it is never read again. It is no
// error if there is none.
func (f *Folder) PutAside(id string) error {
	_, err := do(f, func() (struct{}, error) {
		return struct{}{}, f.folder.Rename(id+suffix, id+putAsideName)
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Save writes the snapshot of a store. If there is an error, the file of before is still there.
func (f *Folder) Save(h *Header, i *cache.Image) (Counts, error) {
	return do(f, func() (Counts, error) { return f.save(h, i) })
}

func (f *Folder) save(h *Header, i *cache.Image) (Counts, error) {
	temporary := h.ID + unfinished
	file, err := f.folder.Create(temporary)
	if err != nil {
		return Counts{}, err
	}
	counts, err := Write(file, h, i)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = f.folder.Rename(temporary, h.ID+suffix)
	}
	if err != nil {
		_ = f.folder.Remove(temporary) // it may be the space that is missing
		return counts, err
	}
	return counts, f.folder.Sync()
}

// Tidy removes the files of stores that nobody has asked for in MaxAge, and the oldest ones while
// all together take more than limit bytes. It removes none of open stores.
func (f *Folder) Tidy(now time.Time, limit int64, open func(id string) bool) (removed int, err error) {
	return do(f, func() (int, error) { return f.tidy(now, limit, open) })
}

func (f *Folder) tidy(now time.Time, limit int64, open func(id string) bool) (removed int, err error) {
	listed, err := f.folder.List()
	if err != nil {
		return 0, err
	}
	total := int64(0)
	for _, file := range listed {
		total += file.Size
	}
	slices.SortFunc(listed, func(a, b files.Info) int { return cmp.Or(a.Modified.Compare(b.Modified), cmp.Compare(a.Name, b.Name)) })
	for _, file := range listed {
		id, whole := strings.CutSuffix(file.Name, suffix)
		if !whole && !strings.HasSuffix(file.Name, putAsideName) || whole && open(id) || (total <= limit && now.Sub(file.Modified) < MaxAge) {
			continue
		}
		if err := f.folder.Remove(file.Name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return removed, err
		}
		removed++
		total -= file.Size
	}
	return removed, nil
}

// Found is a file in a folder.
type Found struct {
	Name     string
	Size     int64
	Modified time.Time
	Header   *Header // nil if it cannot be read
	Err      error   // why the file cannot be used
}

// Headers returns what the snapshots of a folder are of, without reading their contents.
func (f *Folder) Headers() ([]Found, error) {
	return do(f, func() ([]Found, error) { return headers(f.folder) })
}

func headers(folder files.Folder) ([]Found, error) {
	files, err := folder.List()
	if err != nil {
		return nil, err
	}
	var all []Found
	for _, file := range files {
		if !strings.HasSuffix(file.Name, suffix) && !strings.HasSuffix(file.Name, putAsideName) {
			continue
		}
		x := Found{Name: file.Name, Size: file.Size, Modified: file.Modified}
		x.Header, x.Err = read(folder, file.Name, ReadHeader)
		all = append(all, x)
	}
	return all, nil
}

// Contents is a file of a folder with all that it holds.
type Contents struct {
	Found
	Image *cache.Image // nil if it cannot be read
}

// Inspect reads the snapshots of a folder, one after the other, and changes nothing. A relay may
// be writing to it.
func Inspect(d files.Disk, path string, each func(*Contents)) error {
	folder, err := d.Look(path)
	if err != nil {
		return err
	}
	found, err := headers(folder)
	for i := range found {
		c := &Contents{Found: found[i]}
		if c.Err == nil {
			c.Image, c.Err = read(folder, c.Name, func(r io.Reader) (*cache.Image, error) {
				_, image, err := Read(r)
				return image, err
			})
		}
		each(c)
	}
	return errors.Join(err, folder.Close())
}

func read[T any](folder files.Folder, name string, from func(io.Reader) (T, error)) (T, error) {
	file, err := folder.Open(name)
	if err != nil {
		var none T
		return none, err
	}
	x, err := from(file)
	return x, errors.Join(err, file.Close())
}
