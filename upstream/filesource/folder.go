package filesource

import (
	"log/slog"
	"os"
	"path/filepath"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// survey lists the names of the files to read, in order, and has their folders
// watched. Watching begins before listing, so that no change falls between.
func (s *Source) survey(w *files.Watcher) ([]string, *Error) {
	// What is found may lead to more that is to be watched. It does so for good unless
	// links are swapped all the time, and the poll sees those.
	for range 4 {
		names, links, bad := s.list()
		if !w.Aim(s.cfg.Path, links) {
			return names, bad
		}
	}
	names, _, bad := s.list()
	return names, bad
}

// list gives the names of the files to read, and which of them are symbolic links.
func (s *Source) list() (names, links []string, bad *Error) {
	info, err := os.Stat(s.cfg.Path)
	switch {
	case err != nil:
		return nil, nil, unreadable(err)
	case !info.IsDir() && formatOf(s.cfg.Path) < 0:
		return nil, nil, unknownEnding(s.cfg.Path)
	case !info.IsDir():
		return []string{s.cfg.Path}, nil, nil
	}
	entries, err := os.ReadDir(s.cfg.Path)
	if err != nil {
		return nil, nil, unreadable(err)
	}
	var others []string
	for _, e := range entries {
		name, isLink := filepath.Join(s.cfg.Path, e.Name()), e.Type()&os.ModeSymlink != 0
		switch {
		case hidden(e.Name()) || e.IsDir() || isLink && isFolder(name):
		case formatOf(name) < 0:
			others = append(others, name)
		default:
			names = append(names, name)
			if isLink {
				links = append(links, name)
			}
		}
	}
	s.ignore(others)
	return names, links, nil
}

// ignore logs the files that are not read, each once while it is there.
func (s *Source) ignore(names []string) {
	ignored := make(map[string]bool, len(names))
	for _, name := range names {
		if ignored[name] = true; !s.ignored[name] {
			s.cfg.Log.Debug("file ignored: its ending says nothing of its form", slog.String("file", name))
		}
	}
	s.ignored = ignored
}

// isFolder tells whether a link leads to a folder. One that leads nowhere does
// not: it is a file that cannot be read.
func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// hidden tells whether a name is one that listings leave out, as Kubernetes has
// them beside the links to what a ConfigMap holds.
func hidden(base string) bool { return base != "" && base[0] == '.' }

func unknownEnding(path string) *Error {
	bad := errorf("its ending says nothing of its form: expected one of %s", endings())
	bad.File = path
	return bad
}
