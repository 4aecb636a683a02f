package files_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/xdsrelay/xdsrelay/internal/files"
)

// write makes a file that is on the disk when it returns.
func write(t *testing.T, f files.Folder, name, text string) {
	t.Helper()
	w, err := f.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Sync(), w.Close()); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, f files.Folder, name string) string {
	t.Helper()
	r, err := f.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err := errors.Join(err, r.Close()); err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "cache")
	f, err := files.OS{}.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f, "a", "first")
	write(t, f, "b", "second")
	if err := errors.Join(f.Rename("b", "a"), f.Sync()); err != nil {
		t.Fatal(err)
	}
	if got := read(t, f, "a"); got != "second" {
		t.Errorf("the renamed file holds %q", got)
	}
	if _, err := f.Open("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the old name: %v", err)
	}
	files, err := f.List()
	if err != nil || len(files) != 1 || files[0].Name != "a" || files[0].Size != 6 || files[0].Modified.IsZero() {
		t.Errorf("files %v, %v: the lock is none of them", files, err)
	}
	var modes []fs.FileMode
	for _, p := range []string{path, filepath.Join(path, "a"), filepath.Join(path, "lock")} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		modes = append(modes, info.Mode().Perm())
	}
	if diff := cmp.Diff([]fs.FileMode{0o700, 0o600, 0o600}, modes); diff != "" {
		t.Errorf("modes (-want +got):\n%s", diff)
	}
	if err := f.Remove("a"); err != nil {
		t.Error(err)
	}
	if err := f.Remove("a"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removed twice: %v", err)
	}
	if _, err := f.Create("../out"); err == nil {
		t.Error("a file was made outside of the folder")
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// A folder has one owner. Others may look.
func TestSUR1FolderIsLocked(t *testing.T) {
	path := t.TempDir()
	first, err := files.OS{}.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, first, "a", "text")
	if _, err := (files.OS{}).Open(path); !errors.Is(err, files.ErrLocked) {
		t.Fatalf("the second owner: %v", err)
	}
	guest, err := files.OS{}.Look(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := read(t, guest, "a"); got != "text" {
		t.Errorf("a guest reads %q", got)
	}
	if err := errors.Join(guest.Close(), first.Close()); err != nil {
		t.Fatal(err)
	}
	second, err := files.OS{}.Open(path)
	if err != nil {
		t.Fatalf("after the first owner: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// Others could change what the relay gives its clients after a restart.
func TestOpenToOthers_SUR1(t *testing.T) {
	path := t.TempDir()
	for mode, usable := range map[fs.FileMode]bool{0o777: false, 0o777 | fs.ModeSticky: false, 0o775: true, 0o700: true} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		f, err := files.OS{}.Open(path)
		if (err == nil) != usable || (files.Usable(path) == nil) != usable {
			t.Errorf("mode %v: %v, %v", mode, err, files.Usable(path))
		}
		if err == nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
