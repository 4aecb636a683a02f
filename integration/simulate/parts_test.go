package simulate

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/files"
)

// connected is a network with a connection of host a to a listener of host b.
func connected(t *testing.T) (n *network, lis net.Listener, a, b net.Conn) {
	t.Helper()
	n = newNetwork(1)
	lis = n.listen("b", "80")
	a, err := n.dialer("a")(t.Context(), "tcp", "b:80")
	if err != nil {
		t.Fatal(err)
	}
	if b, err = lis.Accept(); err != nil {
		t.Fatal(err)
	}
	return n, lis, a, b
}

// TestNetwork: what is written arrives, waits where the way is cut, and comes in part from a
// host that is gone.
func TestNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, lis, a, b := connected(t)
		n.sever("a", "b")
		if _, err := a.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if err := b.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Read(got); err == nil {
			t.Error("something came over a way that is cut")
		}
		n.mend("a", "b")
		if err := b.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(b, got); err != nil || string(got) != "hello" {
			t.Errorf("%q, %v", got, err)
		}
		if _, err := a.Write(make([]byte, 10*segment)); err != nil {
			t.Fatal(err)
		}
		n.crash("a")
		rest, err := io.ReadAll(b)
		if len(rest) >= 10*segment || !errors.Is(err, errReset) {
			t.Errorf("%d bytes came from a host that is gone, and %v", len(rest), err)
		}
		if _, err := b.Write([]byte("x")); err == nil {
			t.Error("something was written to a host that is gone")
		}
		if _, err := n.dialer("a")(t.Context(), "tcp", "a:80"); !errors.Is(err, errRefused) {
			t.Errorf("%v", err)
		}
		n.close()
		if _, err := lis.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("%v", err)
		}
	})
}

// TestNetworkClosed: that a host has closed is known to the other one when it arrives there, by reading and writing
// alike.
func TestNetworkClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n, _, a, b := connected(t)
		n.sever("b", "a")
		_ = b.Close()
		<-time.After(time.Minute)
		if err := a.SetReadDeadline(time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("what was closed behind a cut is read as %v", err)
		}
		if k, err := a.Write(make([]byte, 3*window)); err != nil || k != 3*window {
			t.Errorf("what was closed behind a cut took %d bytes, and %v", k, err)
		}
		n.mend("b", "a")
		if err := a.SetReadDeadline(time.Time{}); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
			t.Errorf("%v", err)
		}
		if _, err := a.Write([]byte("x")); !errors.Is(err, errPipe) {
			t.Errorf("%v", err)
		}
		n.close()
	})
}

// TestStorage: a crash keeps what was synced under the name that was, and a part of the rest.
func TestStorage(t *testing.T) {
	torn := 0
	for seed := range uint64(50) {
		s := newStorage(seed)
		put := func(f files.Folder, name, text string, sync bool) {
			w, err := f.Create(name)
			if err == nil {
				_, err = w.Write([]byte(text))
			}
			if err == nil && sync {
				err = w.Sync()
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		f, err := s.Open("/x")
		if err != nil {
			t.Fatal(err)
		}
		put(f, "kept", "all of it", true)
		if err := f.Sync(); err != nil {
			t.Fatal(err)
		}
		put(f, "next", "something else", false)
		if err := f.Rename("next", "kept"); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Open("/x"); !errors.Is(err, files.ErrLocked) {
			t.Errorf("a second process: %v", err)
		}
		s.crash()
		if _, err := f.Create("more"); err == nil {
			t.Error("a dead process wrote")
		}
		again, err := s.Open("/x")
		if err != nil {
			t.Fatal(err)
		}
		r, err := again.Open("kept")
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(text) != "all of it" {
			torn++
			if rest := slices.Clone(text); len(rest) > len("something else") {
				t.Errorf("seed %d: %q", seed, rest)
			}
		}
	}
	if torn < 5 || torn > 45 {
		t.Errorf("%d of 50 crashes kept the new name", torn)
	}
}
