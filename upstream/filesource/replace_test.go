package filesource

import (
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestFILE1 replaces files in every way there is, with the path being the folder
// and a file in it.
func TestFILE1(t *testing.T) {
	for _, tt := range []struct {
		name    string
		prepare func(f folder)
		change  func(f folder)
	}{
		{"FILE-1 by rename", func(f folder) { f.mkdir("xds"); f.write("xds/c.yaml", clusters("1", "a")) },
			func(f folder) { f.replace("xds/c.yaml", clusters("2", "a", "b")) }},
		{"FILE-1 by rewrite in place", func(f folder) { f.mkdir("xds"); f.write("xds/c.yaml", clusters("1", "a")) },
			func(f folder) { f.write("xds/c.yaml", clusters("2", "a", "b")) }},
		{"FILE-1 by rewrite to the same size", func(f folder) {
			f.mkdir("xds")
			f.write("xds/c.yaml", clusters("1", "a")+"#----------------------------------------------------------------------------\n")
		},
			func(f folder) { f.write("xds/c.yaml", clusters("2", "a", "b")) }},
		{"FILE-1 by deletion and making it again", func(f folder) { f.mkdir("xds"); f.write("xds/c.yaml", clusters("1", "a")) },
			func(f folder) { f.remove("xds/c.yaml"); f.write("xds/c.yaml", clusters("2", "a", "b")) }},
		{"FILE-1 by the switch of a ConfigMap", func(f folder) { f.configMap("xds", "1", map[string]string{"c.yaml": clusters("1", "a")}) },
			func(f folder) { f.configMap("xds", "2", map[string]string{"c.yaml": clusters("2", "a", "b")}) }},
		{"FILE-1 by making the folder again", func(f folder) { f.mkdir("xds"); f.write("xds/c.yaml", clusters("1", "a")) },
			func(f folder) { f.remove("xds"); f.mkdir("xds"); f.write("xds/c.yaml", clusters("2", "a", "b")) }},
		{"FILE-1 by another folder in its place", func(f folder) { f.mkdir("xds"); f.write("xds/c.yaml", clusters("1", "a")) },
			func(f folder) {
				f.mkdir("new")
				f.write("new/c.yaml", clusters("2", "a", "b"))
				f.rename("xds", "old")
				f.rename("new", "xds")
			}},
		{"FILE-1 by the switch of a link to the folder", func(f folder) {
			f.mkdir("v1")
			f.write("v1/c.yaml", clusters("1", "a"))
			f.mkdir("v2")
			f.write("v2/c.yaml", clusters("2", "a", "b"))
			f.link("v1", "xds")
		}, func(f folder) { f.link(f.path("v2"), "switch"); f.rename("switch", "xds") }},
		{"FILE-1 behind a link", func(f folder) {
			f.mkdir("elsewhere")
			f.write("elsewhere/data", clusters("1", "a"))
			f.mkdir("xds")
			f.link("../elsewhere/data", "xds/c.yaml")
		}, func(f folder) { f.replace("elsewhere/data", clusters("2", "a", "b")) }},
	} {
		for _, path := range []string{"xds", "xds/c.yaml"} {
			t.Run(tt.name+" of "+path, func(t *testing.T) {
				f := newFolder(t)
				tt.prepare(f)
				r := run(t, f.path(path))
				before := r.wait("1: a")
				tt.change(f)
				if after := r.wait("2: a, b"); after.Number <= before.Number {
					t.Errorf("number %d after %d", after.Number, before.Number)
				}
			})
		}
	}
}

func TestFILE1_oneChangeAfterTheOther(t *testing.T) {
	f := newFolder(t)
	f.configMap("xds", "0", map[string]string{"c.yaml": clusters("0", "a")})
	r := run(t, f.path("xds"))
	r.wait("0: a")
	for i := range 5 {
		n := string(rune('1' + i))
		f.configMap("xds", n, map[string]string{"c.yaml": clusters(n, "a", "x"+n)})
		r.wait(n + ": a, x" + n)
	}
	for i := range 5 {
		n := string(rune('a' + i))
		f.remove("xds")
		f.mkdir("xds")
		f.write("xds/c.yaml", clusters(n, n))
		r.wait(n + ": " + n)
	}
}

func TestPathAppearsLater(t *testing.T) {
	for _, path := range []string{"one/two/xds", "one/two/xds/c.yaml"} {
		t.Run(path, func(t *testing.T) {
			f := newFolder(t)
			r := run(t, f.path(path))
			r.waitReport("cannot be read: no such file or directory")
			if s := r.Snapshot(); s.Number != 0 || !s.Incomplete || len(s.States) != 0 {
				t.Errorf("a snapshot of nothing: %+v", s)
			}
			f.mkdir("one/two/xds")
			f.write("one/two/xds/c.yaml", clusters("1", "a"))
			if s := r.wait("1: a"); s.Incomplete {
				t.Error("incomplete")
			}
			r.waitReport(": ok")
		})
	}
}

// TestPathGone: what is gone as a whole takes nothing with it.
func TestPathGone(t *testing.T) {
	for _, path := range []string{"xds", "xds/c.yaml"} {
		t.Run(path, func(t *testing.T) {
			f := newFolder(t)
			f.mkdir("xds")
			f.write("xds/c.yaml", clusters("1", "a"))
			r := run(t, f.path(path))
			before := r.wait("1: a")
			f.rename("xds", "gone") // at once: taking file by file would mean that of each file
			r.waitReport("cannot be read: no such file or directory")
			if after := r.Snapshot(); after != before {
				t.Errorf("another snapshot: %s", state(after))
			}
			f.mkdir("xds")
			f.write("xds/c.yaml", clusters("2", "b"))
			r.wait("2: b")
			r.waitReport(": ok")
		})
	}
}

// TestRES8_fileGone: a file that is gone from its folder removes what it held.
func TestRES8_fileGone(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	f.write("b.yaml", clusters("7", "b", "c"))
	r := run(t, f.root)
	r.wait("1,7: a, b, c")
	f.remove("b.yaml")
	r.wait("1: a")
	f.remove("a.yaml")
	s := r.wait(digest(nil) + ": ")
	if s.Incomplete || len(s.States) != 1 {
		t.Errorf("%+v, want the type to stay, without resources", s)
	}
	f.write("b.yaml", clusters("8", "b"))
	r.wait("8: b")
}

func TestBrokenFileKeepsItsContents(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	f.write("b.yaml", clusters("1", "b"))
	r := run(t, f.root)
	r.wait("1,1: a, b")
	for _, broken := range []string{"", "resources: [", "version_info: x\n", clusters("2", "b", "b")} {
		f.replace("b.yaml", broken)
		r.waitReport("b.yaml:")
		f.replace("a.yaml", clusters("2", "a"))
		r.wait("2,1: a, b")
		r.forget()
		f.replace("a.yaml", clusters("1", "a"))
		r.wait("1,1: a, b")
		f.replace("b.yaml", clusters("1", "b"))
		r.waitReport("b.yaml: ok")
		r.forget()
	}
	// A file that was never valid says nothing, and that is told.
	f.write("c.yaml", "{")
	r.waitReport("c.yaml:1")
	f.replace("a.yaml", clusters("3", "a"))
	if s := r.wait("3,1: a, b"); !s.Incomplete {
		t.Error("complete, with a file that nobody could read")
	}
	f.remove("c.yaml")
	r.waitReport("c.yaml: ok") // which comes before the contents
	r.waitFor("a complete one, without the file that nobody could read", func(s *Snapshot) bool { return !s.Incomplete })
}

// TestReportedOnce: a reason is told once, however often the file is looked at.
func TestReportedOnce(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	f.write("b.yaml", "{")
	r := run(t, f.root)
	r.waitReport("b.yaml:1")
	for _, version := range []string{"2", "3"} {
		f.replace("a.yaml", clusters(version, "a"))
		r.wait(version + ": a")
	}
	f.replace("b.yaml", "{{")
	f.replace("a.yaml", clusters("4", "a"))
	r.wait("4: a")
	f.replace("b.yaml", "x: {}")
	r.waitReport("unknown field")
	r.mu.Lock()
	defer r.mu.Unlock()
	if got := strings.Join(r.reports, "\n"); strings.Count(got, "\n") > 2 {
		t.Errorf("reported:\n%s", got)
	}
}

// TestPoll: without a watch, as on a network file system, the poll finds changes.
func TestPoll(t *testing.T) {
	f := newFolder(t)
	f.configMap("xds", "1", map[string]string{"c.yaml": clusters("1", "a")})
	r := run(t, f.path("xds"), func(s *Source) {
		s.cfg.Poll = 10 * time.Millisecond
		s.notify = func() (*fsnotify.Watcher, error) { return nil, errors.New("too many") }
	})
	r.wait("1: a")
	f.configMap("xds", "2", map[string]string{"c.yaml": clusters("2", "b")})
	r.wait("2: b")
	f.remove("xds")
	r.waitReport("no such file")
	f.mkdir("xds")
	f.write("xds/c.yaml", clusters("3", "c"))
	r.wait("3: c")
}

// TestFolderTurnsFile: the path may change what it is.
func TestFolderTurnsFile(t *testing.T) {
	f := newFolder(t)
	f.write("xds.yaml", clusters("1", "a"))
	r := run(t, f.path("xds.yaml"))
	r.wait("1: a")
	f.mkdir("folder")
	f.write("folder/c.yaml", clusters("2", "b"))
	f.remove("xds.yaml")
	f.rename("folder", "xds.yaml")
	r.wait("2: b")
	f.remove("xds.yaml")
	f.write("xds.yaml", clusters("1", "a"))
	r.wait("1: a")
	f.remove("xds.yaml")
	f.write("xds", "")
	f.link("xds", "xds.yaml")
	r.waitReport("is empty")
	if got := state(r.Snapshot()); got != "1: a" {
		t.Errorf("%s", got)
	}
}

func TestFolderEntries(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	f.write(".hidden.yaml", clusters("1", "hidden"))
	f.write("README.md", "not read")
	f.write("B.YML", clusters("1", "b"))
	f.mkdir("sub.yaml")
	f.write("sub.yaml/c.yaml", clusters("1", "sub"))
	f.link("sub.yaml", "link.yaml")
	f.link(".hidden.yaml", "shown.yaml")
	f.link("missing", "dangling.yaml")
	r := run(t, f.root)
	s := r.wait("1,1,1: b, a, hidden")
	r.waitReport("dangling.yaml: cannot be read: no such file or directory")
	if !s.Incomplete {
		t.Error("complete, with a link to nothing")
	}
	f.write("missing", clusters("9", "found"))
	r.wait("1,1,9,1: b, a, found, hidden")
}

func TestUnreadableFiles(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("root reads everything: the case of a file without permission is left out")
	}
	f := newFolder(t)
	f.write("large.yaml", clusters("1", "a")+strings.Repeat("#", 200))
	r := run(t, f.root, func(s *Source) { s.cfg.MaxSize = 200 })
	r.waitReport("large.yaml: is larger than 200 bytes")
	f.replace("large.yaml", clusters("1", "a"))
	r.wait("1: a")
	r.waitReport("large.yaml: ok")

	// Opening a socket, or a pipe, is not what reading a file is.
	socket, err := net.Listen("unix", f.path("s.yaml"))
	f.must(err)
	r.waitReport("s.yaml: is no regular file")
	f.must(socket.Close())
	r.waitReport("s.yaml: ok")
	if os.Getuid() != 0 {
		f.must(os.Chmod(f.path("large.yaml"), 0))
		f.write("b.yaml", clusters("2", "b"))
		r.wait("2,1: b, a")
		r.waitReport("large.yaml: cannot be read: permission denied")
	}
}
