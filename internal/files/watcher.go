package files

import (
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
)

// maxLinks is how many symbolic links are followed on the way to a file, as many
// as Linux follows.
const maxLinks = 40

// WatcherConfig says what a Watcher is for.
type WatcherConfig struct {
	// Path is what is watched, as the log calls it, and Poll how often it is looked at
	// beside that.
	Path string
	Poll time.Duration
	// Entries says which entries of a folder matter that is itself what is watched; nil:
	// none.
	Entries func(base string) bool
	// Log gets a warning where something cannot be watched.
	Log *slog.Logger
	// System makes the system's watcher; nil: fsnotify.NewWatcher.
	System func() (*fsnotify.Watcher, error)
}

// Watcher hears of changes in the folders that matter. It belongs to one goroutine.
// Folders are watched and not files: that is how the replacing of a file is seen, and
// its coming back. The zero Watcher hears of nothing.
type Watcher struct {
	cfg     WatcherConfig
	system  *fsnotify.Watcher // nil if there is none: then polling has to do
	events  <-chan fsnotify.Event
	lost    chan error // one slot: something went wrong, events may be missing
	wg      sync.WaitGroup
	refused map[string]bool // folders that cannot be watched, to log each once
	aims    map[string]*aim // by the folder's path, in which there are no links
}

// aim is what matters in a folder.
type aim struct {
	names   map[string]bool // entries on the way to a file
	entries bool            // and those that WatcherConfig.Entries says
}

// NewWatcher makes a Watcher, which watches nothing until Aim says what. Close must be called.
func NewWatcher(cfg WatcherConfig) *Watcher {
	if cfg.System == nil {
		cfg.System = fsnotify.NewWatcher
	}
	w := &Watcher{cfg: cfg, refused: make(map[string]bool), lost: make(chan error, 1)}
	system, err := cfg.System()
	if err != nil {
		cfg.Log.Warn("files cannot be watched, they are polled instead",
			slog.String("path", cfg.Path), slog.Duration("interval", cfg.Poll), slog.Any("error", err))
		return w
	}
	w.system, w.events = system, system.Events
	// fsnotify holds its lock while it waits for somebody to take an error, and Add
	// wants that lock.
	w.wg.Go(func() {
		for err := range system.Errors {
			select {
			case w.lost <- err:
			default:
			}
		}
	})
	return w
}

// Events receives what happened: to what matters if Concerns says so of its name.
func (w *Watcher) Events() <-chan fsnotify.Event { return w.events }

// Lost receives when events may be missing, and why.
func (w *Watcher) Lost() <-chan error { return w.lost }

// Close ends the watching and waits for it.
func (w *Watcher) Close() {
	if w.system == nil {
		return
	}
	if err := w.system.Close(); err != nil {
		w.cfg.Log.Debug("closing the watch of files", slog.Any("error", err))
	}
	// The system's goroutine closes its channels when it ends.
	for range w.events {
	}
	w.wg.Wait()
}

// Concerns tells whether a change of name can be one of a file that is read.
func (w *Watcher) Concerns(name string) bool {
	if w.aims[name] != nil {
		return true // the folder itself
	}
	a := w.aims[filepath.Dir(name)]
	base := filepath.Base(name)
	return a != nil && (a.names[base] || a.entries && w.cfg.Entries != nil && w.cfg.Entries(base))
}

// Aim watches all folders on the way to path and to each of links, and no
// others. It returns true if one was not watched before: what happened in it
// until now was not seen.
func (w *Watcher) Aim(path string, links []string) (isNew bool) {
	if w.system == nil {
		return false
	}
	w.aims = make(map[string]*aim)
	if resolved, ok := w.follow(path); ok {
		w.at(resolved).entries = true
	}
	for _, link := range links {
		w.follow(link)
	}
	watched := w.system.WatchList()
	for _, folder := range watched {
		if w.aims[folder] == nil {
			// It fails if the folder has gone meanwhile, which is as good.
			_ = w.system.Remove(folder)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(w.aims)) {
		// Watched ones too: there may be another folder by that name now.
		err := w.system.Add(folder)
		if err == nil && !slices.Contains(watched, folder) {
			isNew = true
		}
		w.noteRefused(folder, err)
	}
	return isNew
}

// noteRefused logs that a folder cannot be watched, unless it is only gone.
func (w *Watcher) noteRefused(folder string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(w.refused, folder)
		return
	}
	if !w.refused[folder] {
		w.refused[folder] = true
		w.cfg.Log.Warn("folder cannot be watched, it is polled instead", slog.String("folder", folder), slog.Any("error", err))
	}
}

// at gives what matters in a folder.
func (w *Watcher) at(folder string) *aim {
	a := w.aims[folder]
	if a == nil {
		a = &aim{names: make(map[string]bool)}
		w.aims[folder] = a
	}
	return a
}

// follow walks to path and aims at each symbolic link on the way and at the end
// of it, or at the first name that is missing. It gives the path without links
// and whether it is that of a folder.
func (w *Watcher) follow(path string) (resolved string, folder bool) {
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", false // the working directory is gone
	}
	root := filepath.VolumeName(absolute) + string(filepath.Separator)
	at, rest, links := root, names(absolute[len(root):]), 0
	for len(rest) > 0 {
		name := rest[0]
		rest = rest[1:]
		next := filepath.Join(at, name) // ".." too: at holds no links
		info, err := os.Lstat(next)
		if err != nil {
			w.at(at).names[name] = true
			return "", false
		}
		if info.Mode()&os.ModeSymlink == 0 {
			if len(rest) == 0 {
				w.at(at).names[name] = true
			}
			at, folder = next, info.IsDir()
			continue
		}
		w.at(at).names[name] = true
		target, err := os.Readlink(next)
		if links++; err != nil || links > maxLinks {
			return "", false
		}
		if filepath.IsAbs(target) {
			root = filepath.VolumeName(target) + string(filepath.Separator)
			at, target = root, target[len(root):]
		}
		rest = append(names(target), rest...)
	}
	return at, folder
}

// names splits a relative path.
func names(path string) []string {
	return slices.DeleteFunc(strings.Split(path, string(filepath.Separator)), func(name string) bool {
		return name == "" || name == "."
	})
}
