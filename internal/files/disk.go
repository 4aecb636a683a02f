package files

import (
	"errors"
	"io"
	"time"
)

// Disk opens folders. Its methods may be called from any goroutine.
type Disk interface {
	// Open makes a folder if there is none, and locks it. The error is ErrLocked if somebody
	// else holds it, in this process or another.
	Open(path string) (Folder, error)
	// Look opens a folder for reading only. It takes no lock.
	Look(path string) (Folder, error)
}

// Folder is an open folder. Names have no separators. Its methods may be called from any
// goroutine; Close is the last.
type Folder interface {
	// Open opens a file for reading. The error is fs.ErrNotExist if there is none.
	Open(name string) (io.ReadCloser, error)
	// Create makes an empty file for the owner alone (0600). It empties one that is there.
	Create(name string) (File, error)
	// Rename gives a file another name. A file of that name is gone then.
	Rename(from, to string) error
	// Remove removes a file. The error is fs.ErrNotExist if there is none.
	Remove(name string) error
	// List returns the files, by name. The lock is none of them.
	List() ([]Info, error)
	// Sync returns when all renames and removals are on the disk.
	Sync() error
	// Close releases the lock.
	Close() error
}

// File is a file that is being written. It must be closed.
type File interface {
	io.WriteCloser
	// Sync returns when everything that was written is on the disk.
	Sync() error
}

// Info is a file in a folder.
type Info struct {
	Name     string
	Size     int64
	Modified time.Time
}

// ErrLocked is that somebody else holds a folder.
var ErrLocked = errors.New("another process holds the lock")
