package snapshot

import (
	"errors"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// hanging is a folder whose renames wait.
type hanging struct {
	folderOf

	until chan struct{}
}

func (h hanging) Rename(from, to string) error {
	<-h.until
	return h.folderOf.Rename(from, to)
}

type hangingOpener struct{ folder hanging }

func (o hangingOpener) Open(string) (files.Folder, error) { return o.folder, nil }
func (o hangingOpener) Look(string) (files.Folder, error) { return o.folder, nil }

// A disk that hangs keeps nobody waiting for ever: neither those who write, nor those who read,
// nor the relay's end.
func TestSUR1DiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := newMachine(rand.New(rand.NewPCG(1, 1)))
		disk := hanging{folderOf{machine}, make(chan struct{})}
		f, err := Open(hangingOpener{disk}, "")
		if err != nil {
			t.Fatal(err)
		}
		id, image := ID("a"), imageOfState(t, 1, 5)
		began := time.Now()
		if _, err := f.Save(&Header{ID: id}, image); !errors.Is(err, ErrHangs) {
			t.Errorf("writing ends with %v", err)
		}
		if _, _, err := f.Load(id); !errors.Is(err, ErrHangs) {
			t.Errorf("reading ends with %v", err)
		}
		if err := f.Close(); !errors.Is(err, ErrHangs) {
			t.Errorf("closing ends with %v", err)
		}
		if took := time.Since(began); took != 3*patience {
			t.Errorf("all that took %v", took)
		}
		close(disk.until)
		if _, _, err := f.Load(id); err != nil {
			t.Errorf("the disk answers again, and reading ends with %v", err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if _, _, err := f.Load(id); !errors.Is(err, errClosed) {
			t.Errorf("of a closed folder reading ends with %v", err)
		}
	})
}
