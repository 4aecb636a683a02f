package files

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// OS is the file system of the machine.
type OS struct{}

// lockName is the file in a folder that is locked. It stays: a lock goes with its process.
const lockName = "lock"

// Open implements Disk. The folder is for its owner alone (0700) if it is made.
func (OS) Open(path string) (Folder, error) {
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	if info, err := root.Stat("."); err != nil || openToOthers(info) {
		return nil, errors.Join(err, openError(path), root.Close())
	}
	held, err := root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		if err = lock(held); err != nil {
			err = errors.Join(err, held.Close())
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", path, err), root.Close())
	}
	return &folder{root: root, held: held}, nil
}

// Look implements Disk.
func (OS) Look(path string) (Folder, error) {
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, err
	}
	return &folder{root: root}, nil
}

// openError says that users beside the owner and the group may write to a folder. They could change what a process reads there.
func openError(path string) error {
	return fmt.Errorf("every user may write to %s: use a folder of the relay's own, or chmod o-w", path)
}

type folder struct {
	root *os.Root
	held *os.File // locked; nil: nothing is
}

func (f *folder) Open(name string) (io.ReadCloser, error) { return f.root.Open(name) }

func (f *folder) Create(name string) (File, error) {
	return f.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

func (f *folder) Rename(from, to string) error { return f.root.Rename(from, to) }

func (f *folder) Remove(name string) error { return f.root.Remove(name) }

func (f *folder) List() ([]Info, error) {
	dir, err := f.root.Open(".")
	if err != nil {
		return nil, err
	}
	entries, err := dir.ReadDir(-1)
	if err := errors.Join(err, dir.Close()); err != nil {
		return nil, err
	}
	var files []Info
	for _, e := range entries {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went meanwhile
		case err != nil:
			return nil, err
		case info.Mode().IsRegular() && e.Name() != lockName:
			files = append(files, Info{Name: e.Name(), Size: info.Size(), Modified: info.ModTime()})
		}
	}
	slices.SortFunc(files, func(a, b Info) int { return cmp.Compare(a.Name, b.Name) })
	return files, nil
}

func (f *folder) Sync() error {
	dir, err := f.root.Open(".")
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (f *folder) Close() error {
	if f.held == nil {
		return f.root.Close()
	}
	return errors.Join(f.held.Close(), f.root.Close())
}

// Usable reports why Open would fail at a path, as far as that is to be seen without changing anything.
func Usable(path string) error {
	info, err := os.Stat(path)
	if err == nil && info.IsDir() && openToOthers(info) {
		return openError(path)
	}
	for errors.Is(err, fs.ErrNotExist) && filepath.Dir(path) != path { // Open makes what is missing
		path = filepath.Dir(path)
		info, err = os.Stat(path)
	}
	switch {
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s is no folder", path)
	case !writable(path):
		return fmt.Errorf("%s cannot be written", path)
	}
	return nil
}

// Locked reports whether another process holds the lock of a folder.
func Locked(path string) bool {
	f, err := os.OpenFile(filepath.Join(path, lockName), os.O_RDWR, 0)
	if err != nil {
		return false
	}
	err = lock(f)
	_ = f.Close() // nothing was written
	return errors.Is(err, ErrLocked)
}

// Used reports whether a folder was opened before: it has a lock.
func Used(path string) bool {
	info, err := os.Lstat(filepath.Join(path, lockName))
	return err == nil && info.Mode().IsRegular()
}
