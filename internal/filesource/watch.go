package filesource

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

	"github.com/fsnotify/fsnotify"
)

// maxLinks is how many symbolic links are followed on the way to a file, as many
// as Linux follows.
const maxLinks = 40

// watcher hears of changes in the folders that matter. It belongs to the
// goroutine of Source.Run. Folders are watched and not files: that is how the
// replacing of a file is seen, and its coming back.
type watcher struct {
	system  *fsnotify.Watcher // nil if there is none: then the poll has to do
	events  <-chan fsnotify.Event
	lost    chan error // one slot: something went wrong, events may be missing
	wg      sync.WaitGroup
	log     *slog.Logger
	refused map[string]bool // folders that cannot be watched, to log each once
	aims    map[string]*aim // by the folder's path, in which there are no links
}

// aim is what matters in a folder.
type aim struct {
	names map[string]bool // entries on the way to a file
	files bool            // every entry that is, or could come to be, a file to read
}

func (s *Source) newWatcher() *watcher {
	w := &watcher{log: s.cfg.Log, refused: make(map[string]bool), lost: make(chan error, 1)}
	system, err := s.notify()
	if err != nil {
		w.log.Warn("files cannot be watched, they are polled instead",
			slog.String("path", s.cfg.Path), slog.Duration("interval", s.cfg.Poll), slog.Any("error", err))
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

// close ends the watching and waits for it.
func (w *watcher) close() {
	if w.system == nil {
		return
	}
	if err := w.system.Close(); err != nil {
		w.log.Debug("closing the watch of files", slog.Any("error", err))
	}
	// The system's goroutine closes its channels when it ends.
	for range w.events {
	}
	w.wg.Wait()
}

// concerns tells whether a change of name can be one of a file that is read.
func (w *watcher) concerns(name string) bool {
	if w.aims[name] != nil {
		return true // the folder itself
	}
	a := w.aims[filepath.Dir(name)]
	base := filepath.Base(name)
	return a != nil && (a.names[base] || a.files && !hidden(base) && formatOf(base) >= 0)
}

// aim watches all folders on the way to path and to each of links, and no
// others. It returns true if one was not watched before: what happened in it
// until now was not seen.
func (w *watcher) aim(path string, links []string) (isNew bool) {
	if w.system == nil {
		return false
	}
	w.aims = make(map[string]*aim)
	if resolved, ok := w.follow(path); ok {
		w.at(resolved).files = true
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
func (w *watcher) noteRefused(folder string, err error) {
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		delete(w.refused, folder)
		return
	}
	if !w.refused[folder] {
		w.refused[folder] = true
		w.log.Warn("folder cannot be watched, it is polled instead", slog.String("folder", folder), slog.Any("error", err))
	}
}

// at gives what matters in a folder.
func (w *watcher) at(folder string) *aim {
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
func (w *watcher) follow(path string) (resolved string, folder bool) {
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
