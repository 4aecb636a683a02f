package filesource

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

func TestNewErrors(t *testing.T) {
	f := newFolder(t)
	f.write("a.conf", "")
	for path, want := range map[string]string{
		"":               "filesource: a path is needed",
		f.path("a.conf"): f.path("a.conf") + ": its ending says nothing of its form: expected one of .json, .yaml, .yml, .pb, .bin, .textproto, .txtpb, .pbtxt, .pb_text",
	} {
		if s, err := New(Config{Path: path}); err == nil || err.Error() != want || s != nil {
			t.Errorf("%q: %v, want %s", path, err, want)
		}
	}
	// What is not there yet may be a folder.
	r := run(t, f.path("later.d"))
	r.waitReport("later.d: cannot be read")
	f.rename("a.conf", "later.d")
	r.waitReport("later.d: its ending says nothing of its form")
}

func TestRunTwice(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	r := run(t, f.root)
	r.wait("1: a")
	if err := r.Run(t.Context()); !errors.Is(err, errRunning) {
		t.Errorf("%v", err)
	}
}

// TestRunAgain: what was read stays when Run ends, and Run goes on from there.
func TestRunAgain(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	s, err := New(Config{Path: f.root, Quiet: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	changed, cancel := s.Subscribe()
	defer cancel()
	for _, version := range []string{"1", "2"} {
		f.replace("a.yaml", clusters(version, "a"))
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { s.Run(ctx) })
		select {
		case <-changed:
		case <-time.After(patient):
			t.Error("no snapshot")
		}
		stop()
		wg.Wait()
		if got := state(s.Snapshot()); got != version+": a" {
			t.Errorf("%s, want version %s", got, version)
		}
	}
}

// TestSubscribe: every subscriber has a wake-up of its own, of one slot.
func TestSubscribe(t *testing.T) {
	f := newFolder(t)
	s := still(t, f, Config{})
	one, cancelOne := s.Subscribe()
	two, cancelTwo := s.Subscribe()
	defer cancelTwo()
	for _, version := range []string{"1", "2", "3"} {
		f.put("a.yaml", clusters(version, "a"), time.Hour)
		s.pass(s.blind(), false)
	}
	for _, ch := range []<-chan struct{}{one, two} {
		if len(ch) != 1 {
			t.Errorf("%d wake-ups, want 1", len(ch))
		}
		<-ch
	}
	s.pass(s.blind(), false)
	if len(one)+len(two) != 0 {
		t.Error("woken without a change")
	}
	cancelOne()
	cancelOne()
	f.put("a.yaml", clusters("4", "a"), time.Hour)
	if s.pass(s.blind(), false); len(one) != 0 || len(two) != 1 {
		t.Errorf("%d wake-ups after the end, %d of the other", len(one), len(two))
	}
}

// still gives a source that does nothing by itself.
func still(t *testing.T, f folder, cfg Config) *Source {
	t.Helper()
	cfg.Path = f.root
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// blind gives a watcher that sees nothing.
func (s *Source) blind() *files.Watcher { return new(files.Watcher) }

// put replaces a file by one that was written some time ago.
func (f folder) put(name, data string, age time.Duration) {
	f.t.Helper()
	f.write("put", data)
	then := time.Now().Add(-age)
	f.must(os.Chtimes(f.path("put"), then, then))
	f.rename("put", name)
}

// TestHalfAFile: what is being written is not read, whatever it would say.
func TestHalfAFile(t *testing.T) {
	f := newFolder(t)
	s := still(t, f, Config{Quiet: time.Hour})
	f.put("a.yaml", clusters("1", "a"), 2*time.Hour)
	f.put("b.yaml", clusters("1", "b"), 2*time.Hour)
	if !s.pass(s.blind(), false) || state(s.Snapshot()) != "1,1: a, b" {
		t.Fatalf("%s", state(s.Snapshot()))
	}
	f.put("a.yaml", clusters("2", "a", "x"), 2*time.Hour)
	half := clusters("2", "b", "c")
	f.write("b.yaml", half[:strings.LastIndex(half, "- ")])
	if s.pass(s.blind(), false) || state(s.Snapshot()) != "1,1: a, b" {
		t.Errorf("while somebody writes: %s", state(s.Snapshot()))
	}
	// Somebody who writes without end holds up nobody else without end.
	if s.pass(s.blind(), true) || state(s.Snapshot()) != "2,1: a, x, b" {
		t.Errorf("after all patience: %s", state(s.Snapshot()))
	}
	f.put("b.yaml", half, 2*time.Hour)
	if !s.pass(s.blind(), false) || state(s.Snapshot()) != "2,2: a, x, b, c" {
		t.Errorf("in the end: %s", state(s.Snapshot()))
	}
}

// TestClockOfAnother: a file from a server whose clock is ahead is read all the same.
func TestClockOfAnother(t *testing.T) {
	f := newFolder(t)
	s := still(t, f, Config{Quiet: time.Minute})
	f.put("a.yaml", clusters("1", "a"), -time.Hour)
	if !s.pass(s.blind(), false) || state(s.Snapshot()) != "1: a" {
		t.Errorf("%s", state(s.Snapshot()))
	}
}

// TestChangedWhileRead: what is not the file that was looked at is not taken.
func TestChangedWhileRead(t *testing.T) {
	f := newFolder(t)
	f.write("a.yaml", clusters("1", "a"))
	before, err := os.Stat(f.path("a.yaml"))
	f.must(err)
	f.replace("a.yaml", clusters("2", "a"))
	if _, bad, settled := readFile(f.path("a.yaml"), before, DefaultMaxSize); bad != nil || settled {
		t.Errorf("%v, %t", bad, settled)
	}
	after, err := os.Stat(f.path("a.yaml"))
	f.must(err)
	if data, bad, settled := readFile(f.path("a.yaml"), after, DefaultMaxSize); bad != nil || !settled || string(data) != clusters("2", "a") {
		t.Errorf("%q, %v, %t", data, bad, settled)
	}
}

// TestOPS6_log: neither the log nor a report holds anything of a Secret's file.
func TestOPS6_log(t *testing.T) {
	f := newFolder(t)
	var log bytes.Buffer
	s := still(t, f, Config{
		Log:    slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Report: func(_ string, err error) { log.WriteString(err.Error() + "\n") },
	})
	const valid = `{"resources": [{"@type": "` + secretType + `", "name": "s", "generic_secret": {"secret": {"inline_string": "S3CRET!"}}}]}`
	f.put("a.json", valid, time.Hour)
	f.put("b.json", valid, time.Hour) // the name is another's
	f.put("c.json", valid[:len(valid)-3]+"S3CRET!", time.Hour)
	f.put("d.yaml", valid+"\nS3CRET!", time.Hour)
	f.put("e.txt", valid, time.Hour)
	s.pass(s.blind(), false)
	s.pass(s.blind(), false)
	text := log.String()
	if strings.Contains(text, "S3CRET") {
		t.Error(text)
	}
	for _, want := range []string{`b.json: the name "s" is in ` + f.path("a.json"), "c.json:1:", "d.yaml:", "file ignored"} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%d times %q in:\n%s", strings.Count(text, want), want, text)
		}
	}
	if got := s.Snapshot().States[secretType]; len(got.Resources) != 1 || !bytes.Contains(got.Resources[0].Any(), []byte(marker)) {
		t.Error("the secret did not come through")
	}
}
