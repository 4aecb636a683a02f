//go:build unix

package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// output has what is written.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

// lines are what was written so far, without the times.
func (o *output) lines(t *testing.T) (all []map[string]any) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for line := range strings.Lines(o.text.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if _, dated := fields["time"].(string); !dated {
			t.Errorf("no time: %s", line)
		}
		delete(fields, "time")
		all = append(all, fields)
	}
	return all
}

// A line is one JSON object, whatever a client calls itself.
func TestLine_ACC2(t *testing.T) {
	out := new(output)
	l, err := New("", out, 10, func() {})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	l.Note(&Event{
		What: "access", Identity: "CN=web", Account: "CN=web by CN=ca", Address: "10.0.0.1:1", Listener: "default", Node: "a\nb\x1b[2J", Type: "sds", Name: "key",
		Decision: Deny, Rule: "own", Reason: "no such key",
	})
	l.Command(&Event{What: "command", Name: "hold", Scope: "all", Decision: Allow})
	got := fmt.Sprint(out.lines(t))
	want := "[map[address:10.0.0.1:1 decision:deny event:access identity:CN=web listener:default name:key node:a\nb\ufffd[2J reason:no such key rule:own type:sds]" +
		" map[decision:allow event:command name:hold scope:all]]"
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	var none *Log
	none.Note(new(Event))
	none.Command(new(Event))
	none.SetPerMinute(1)
	none.Close()
}

// Nobody can hide another one's refusal: neither strangers, from many addresses, nor other identities (LIM-4).
func TestBound_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out, lost := new(output), 0
		l, err := New("", out, 2, func() { lost++ })
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for i := range 3 * maxUnknown {
			for range 3 {
				l.Note(&Event{What: "handshake", Address: fmt.Sprintf("10.%d.%d.1:1", i/256, i%256)})
			}
		}
		for range 3 {
			l.Note(&Event{What: "access", Identity: "web", Account: "web by one"})
			l.Note(&Event{What: "access", Identity: "web", Account: "web by other"})
			l.Note(&Event{What: "admin", Identity: "bob", Address: "10.0.0.1:1"})
			l.Command(&Event{What: "command"})
		}
		count := make(map[string]int)
		for _, line := range out.lines(t) {
			count[fmt.Sprint(line["event"])]++
		}
		if want := 2*maxUnknown + 2; count["handshake"] != want || count["access"] != 4 || count["admin"] != 2 || count["command"] != 3 {
			t.Errorf("LIM-4: %v, want %d handshakes", count, want)
		}
		if want := 3*3*maxUnknown - (2*maxUnknown + 2) + 3; lost != want {
			t.Errorf("LIM-4: %d lines are counted as left out, want %d", lost, want)
		}
	})
}

// A file is for its owner alone, and follows its path: who renames it gets no more lines.
func TestFile_ACC2(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.json")
	if err := os.WriteFile(path, []byte("before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &file{path: path}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	write := func(line string) {
		if _, err := f.Write([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	write("one\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("two\n")
	for name, want := range map[string]string{path + ".1": "before\none\n", path: "two\n"} {
		if got, err := os.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("%s has %q, %v, want %q", name, got, err, want)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, odd := range []string{pipe, dir, filepath.Join(dir, "none", "x")} {
		if l, err := New(odd, nil, 1, func() {}); err == nil || !strings.HasPrefix(err.Error(), "audit.to: ") {
			t.Errorf("%s: %v", odd, err)
			l.Close()
		}
	}
}

// Who is refused again and again does not hide what it is given (LIM-4).
func TestBoundOfGiven_LIM4(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := new(output)
		l, err := New("", out, 2, func() {})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for _, decision := range []Decision{Deny, Allow} {
			for range 5 {
				l.Note(&Event{What: "access", Identity: "web", Decision: decision})
			}
		}
		count := make(map[string]int)
		for _, line := range out.lines(t) {
			count[fmt.Sprint(line["decision"])]++
		}
		if count["deny"] != 2 || count["allow"] != 2 {
			t.Errorf("LIM-4: %v, want two of each", count)
		}
	})
}

// Lines that no file takes are counted.
func TestFileLost_ACC2(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	l, err := New(filepath.Join(dir, "audit.json"), nil, 10, func() { lost.Add(1) })
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	l.Command(&Event{What: "command"})
	l.Command(&Event{What: "command"})
	l.Close()
	if n := lost.Load(); n != 2 {
		t.Errorf("ACC-2: %d lines are counted as lost, want 2", n)
	}
}
