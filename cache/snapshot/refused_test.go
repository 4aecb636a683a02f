package snapshot

import (
	"errors"
	"io/fs"
	"math/rand/v2"
	"testing"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// refusing is a folder that neither removes nor renames files.
type refusing struct {
	folderOf

	err error
}

func (r refusing) Rename(string, string) error { return r.err }
func (r refusing) Remove(string) error         { return r.err }

type refusingOpener struct{ folder refusing }

func (o refusingOpener) Open(string) (files.Folder, error) { return o.folder, nil }
func (o refusingOpener) Look(string) (files.Folder, error) { return o.folder, nil }

// A folder with unfinished files that cannot be removed is not opened. Files that are gone already are none.
func TestUnfinished_SUR1(t *testing.T) {
	m := newMachine(rand.New(rand.NewPCG(1, 1)))
	m.names["a"+unfinished] = new(inode)
	for _, tc := range []struct{ refused, want error }{{fs.ErrPermission, fs.ErrPermission}, {fs.ErrNotExist, nil}, {nil, nil}} {
		if _, err := Open(refusingOpener{refusing{folderOf{m}, tc.refused}}, ""); !errors.Is(err, tc.want) {
			t.Errorf("a file that cannot be removed, since %v: %v", tc.refused, err)
		}
	}
}

// A corrupt file that cannot be put aside says why.
func TestPutAside_SUR1(t *testing.T) {
	for _, refused := range []error{nil, fs.ErrPermission} {
		m := newMachine(rand.New(rand.NewPCG(1, 1)))
		m.names["a"+suffix] = &inode{data: []byte("rubbish")}
		f := &Folder{folder: refusing{folderOf{m}, refused}, turn: make(chan struct{}, 1)}
		_, _, err := f.Load("a")
		bad, corrupt := errors.AsType[*CorruptError](err)
		if !corrupt || errors.Is(err, fs.ErrPermission) != (refused != nil) || (err.Error() == bad.Error()) != (refused == nil) {
			t.Errorf("with %v the error is %v", refused, err)
		}
	}
}
