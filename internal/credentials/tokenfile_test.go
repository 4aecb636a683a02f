package credentials

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// records has each record of a log as one line.
type records chan string

func (r records) Write(line []byte) (int, error) {
	r <- string(bytes.TrimSpace(line))
	return len(line), nil
}

// await waits for a record that contains a text.
func (r records) await(ctx context.Context, t *testing.T, text string) {
	t.Helper()
	for {
		select {
		case line := <-r:
			if strings.Contains(line, "s3cret") {
				t.Fatalf("the log shows the token: %s", line)
			}
			if strings.Contains(line, text) {
				return
			}
		case <-ctx.Done():
			t.Fatalf("no record of %q", text)
		}
	}
}

// replace puts a file in the place of another, as those do that renew tokens.
func replace(t *testing.T, path, data string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestFile_ACC6(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	replace(t, path, "s3cret-1\n")
	log := make(records, 100)
	f, err := OpenTokenFile(path, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	token := func() string {
		got, err := f.Token()
		if err != nil {
			t.Error(err)
		}
		return got
	}
	if got := f.Lately(); token() != "s3cret-1" || !slices.Equal(got, []string{"s3cret-1"}) {
		t.Fatalf("%q, lately %q", token(), got)
	}
	replace(t, path, "s3cret-2")
	log.await(t.Context(), t, "taken up")
	want := []string{"s3cret-2", "s3cret-1"}
	if got := f.Lately(); token() != "s3cret-2" || !slices.Equal(got, want) {
		t.Fatalf("%q, lately %q", token(), got)
	}
	for _, bad := range []string{"", "Bearer s3cret-3", strings.Repeat("s3cret", 10_000)} {
		replace(t, path, bad)
		log.await(t.Context(), t, "keeping what it said last")
		if token() != "s3cret-2" {
			t.Fatalf("took %q for a token", token())
		}
	}
	replace(t, path, "s3cret-4")
	log.await(t.Context(), t, "taken up")
	if got := f.Lately(); !slices.Equal(got, []string{"s3cret-4", "s3cret-2"}) {
		t.Fatalf("lately %q", got)
	}
}

func TestRead_ACC6(t *testing.T) {
	folder := t.TempDir()
	file := func(name, data string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jwt := "eyJhbGciOiJub25lIn0.eyJzdWIiOiJhIn0.c2ln-_="
	if got, err := ReadToken(file("good", "\n "+jwt+"\r\n")); got != jwt || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for path, want := range map[string]string{
		file("empty", " \n"):                         "empty file",
		file("two", "s3cret other"):                  "without the word Bearer",
		file("binary", "s3cret\x00"):                 "letters, digits",
		file("long", strings.Repeat("s3cret", 3000)): "at most 16384 bytes",
		folder:                        "regular file",
		filepath.Join(folder, "none"): "no such file",
	} {
		if got, err := ReadToken(path); err == nil || got != "" || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %q, %v", path, got, err)
		}
		if f, err := OpenTokenFile(path, slog.New(slog.DiscardHandler)); err == nil {
			f.Close()
			t.Errorf("%s was opened", path)
		} else if !strings.Contains(err.Error(), "token file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
