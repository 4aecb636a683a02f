package filesource

import (
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// racy is for how long after its last change a file may change once more without
// a different time: the time of a file is as coarse as two seconds on some file
// systems.
const racy = 2 * time.Second

// file is what is known of one file. It belongs to the goroutine of Source.Run.
type file struct {
	name string // as in errors and reports

	// What was read last.
	seen fs.FileInfo // nil if the file must be read again
	sum  [sha256.Size]byte

	candidate *contents // newest that is valid by itself; nil if none ever was
	accepted  *contents // what counts: the candidate unless another file is against it

	unread, invalid, conflict *Error // why accepted is not what the file holds now
	reported                  string // the reason reported last, "" for none
}

// look reads the file if it changed. It returns false if somebody is writing to
// it, and then leaves what is known as it was.
func (f *file) look(now time.Time, cfg *Config) (settled bool) {
	info, err := os.Stat(f.name)
	if err != nil {
		f.fail(unreadable(err))
		return true
	}
	if age := now.Sub(info.ModTime()); age >= 0 && age < cfg.Quiet {
		return false
	}
	if f.seen != nil && files.Same(f.seen, info) {
		return true
	}
	// Opening what is no file could wait for ever.
	if !info.Mode().IsRegular() {
		f.fail(errorf("is no regular file"))
		return true
	}
	data, bad, settled := readFile(f.name, info, cfg.MaxSize)
	if bad != nil {
		f.fail(bad)
		return true
	}
	if !settled {
		return false
	}
	f.unread = nil
	f.seen = info
	if now.Sub(info.ModTime()) < racy {
		f.seen = nil
	}
	f.take(data, cfg.MaxSize)
	return true
}

// fail notes that the file cannot be read.
func (f *file) fail(bad *Error) {
	bad.File = f.name
	f.unread, f.seen = bad, nil
}

// take judges contents unless they are those that were judged before.
func (f *file) take(data []byte, limit int64) {
	sum := sha256.Sum256(data)
	if sum == f.sum {
		return
	}
	f.sum = sum
	c, bad := parse(formatOf(f.name), data, limit)
	f.invalid = bad
	if bad != nil {
		bad.File = f.name
		f.candidate = f.accepted
		return
	}
	f.candidate = c
}

// problem gives why the file does not count as it is, nil if it does.
func (f *file) problem() *Error {
	for _, bad := range []*Error{f.unread, f.invalid, f.conflict} {
		if bad != nil {
			return bad
		}
	}
	return nil
}

// readFile reads a file of at most limit bytes. settled is false if it changed
// meanwhile.
func readFile(name string, info fs.FileInfo, limit int64) (data []byte, bad *Error, settled bool) {
	tooLarge := errorf("is larger than %d bytes", limit)
	if info.Size() > limit {
		return nil, tooLarge, true
	}
	r, err := os.Open(name)
	if err != nil {
		return nil, unreadable(err), true
	}
	defer func() { _ = r.Close() }() // nothing was written
	data, err = io.ReadAll(io.LimitReader(r, limit+1))
	if err != nil {
		return nil, unreadable(err), true
	}
	if int64(len(data)) > limit {
		return nil, tooLarge, true
	}
	after, err := r.Stat()
	if err != nil {
		return nil, unreadable(fmt.Errorf("after reading: %w", err)), true
	}
	return data, nil, files.Same(info, after) && after.Size() == int64(len(data))
}
