package files

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/fsnotify/fsnotify"
)

// Times of a WatchedFile.
const (
	fileQuiet = 200 * time.Millisecond
	filePoll  = 10 * time.Second
)

// WatchedFile follows the contents of one file. It begins with those that there are when it is
// made, so that no change is missed between the first reading of the file and Run.
type WatchedFile struct {
	path string
	seen string // what sums up the contents that were told last

	quiet, poll time.Duration
	system      func() (*fsnotify.Watcher, error) // tests take it away
}

// NewWatchedFile makes a WatchedFile of a regular file, which may be reached by symbolic links. What
// is no such file, a pipe for instance, cannot be read twice, and is refused.
func NewWatchedFile(path string) (*WatchedFile, error) {
	if _, err := regular(path); err != nil {
		return nil, err
	}
	f := &WatchedFile{path: path, quiet: fileQuiet, poll: filePoll}
	f.seen, _ = f.look(time.Time{})
	return f, nil
}

// Check gives the error that the file cannot be read now without waiting for somebody who
// writes it: a pipe may have taken its place.
func (f *WatchedFile) Check() error {
	_, err := regular(f.path)
	return err
}

// regular looks at a file, which has to be one.
func regular(path string) (fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	return info, nil
}

// Run calls changed whenever the file holds something else than before, cannot be read,
// or can be read again, until ctx ends. That it was written to is not enough. A file
// that is being written is waited for. It can be called once.
func (f *WatchedFile) Run(ctx context.Context, log *slog.Logger, changed func()) {
	w := NewWatcher(WatcherConfig{Path: f.path, Poll: f.poll, Log: log, System: f.system})
	defer w.Close()
	poll := time.NewTicker(f.poll)
	defer poll.Stop()
	pace := NewPacer(f.quiet)
	defer pace.Stop()
	w.Aim(f.path, nil)
	pace.Trigger(time.Now())
	for {
		select {
		case <-ctx.Done():
			return
		case <-poll.C:
			pace.Tick(time.Now())
		case e := <-w.Events():
			if w.Concerns(e.Name) {
				pace.Trigger(time.Now())
			}
		case err := <-w.Lost():
			log.Debug("watching a file", "file", f.path, "error", err)
			pace.Trigger(time.Now())
		case <-pace.C():
			f.pass(w, pace, changed)
		}
	}
}

// pass looks at the file, unless somebody is writing to it.
func (f *WatchedFile) pass(w *Watcher, pace *Pacer, changed func()) {
	now := time.Now()
	if w.Aim(f.path, nil) { // what happened in a folder that was not watched was not seen
		pace.Trigger(now)
	}
	sum, settled := f.look(now)
	if !settled && !pace.Overdue(now) {
		pace.Trigger(now)
		return
	}
	pace.Done()
	if sum != f.seen {
		f.seen = sum
		changed()
	}
}

// look sums up what the file holds, or why it cannot be read. It has not settled if it
// was written to within the quiet time before now, or while it was read.
func (f *WatchedFile) look(now time.Time) (sum string, settled bool) {
	before, err := regular(f.path)
	if err != nil {
		return err.Error(), true
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return err.Error(), true
	}
	after, err := os.Stat(f.path)
	settled = err == nil && Same(before, after) && now.Sub(after.ModTime()) >= f.quiet
	return fmt.Sprintf("%x", sha256.Sum256(data)), settled
}

// Same tells whether nothing has changed between two looks at a file.
func Same(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}
