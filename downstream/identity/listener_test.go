package identity

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/mem"

	"github.com/xdsrelay/xdsrelay/downstream/connections"
)

// gRPC keeps a read buffer of 32 KiB for each connection at rest, unless it is of a type of package net
// itself. Thousands of clients in plaintext are connected over TCP.
func TestCredentials_plaintextKeepsNoBuffer(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &Listener{Name: "default"}
	guarded := l.Guard(lis)
	defer guarded.Close()
	near, err := net.Dial("tcp", lis.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	far, err := guarded.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	conn, info, err := Credentials().ServerHandshake(far)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := conn.(*net.TCPConn); !ok {
		t.Errorf("gRPC is given a %T", conn)
	}
	if client, ok := info.(*Client); !ok || client.Listener != l {
		t.Errorf("the client is %+v", info)
	}
}

// unheard is an observer that nobody asks.
type unheard struct{}

func (unheard) Refused(net.Addr, connections.Reason) {}
func (unheard) Waited()                              {}
func (unheard) Slowed(net.Addr)                      {}
func (unheard) Flooded(net.Addr)                     {}

// counted is a pool that counts the buffers that are taken.
type counted struct{ taken, back int }

func (p *counted) Get(n int) *[]byte {
	p.taken++
	b := make([]byte, n)
	return &b
}

func (p *counted) Put(*[]byte) { p.back++ }

// A connection that is bounded keeps no buffer either, over TCP and through unix sockets: gRPC reads it
// when there is something to read.
func TestCredentials_LIM1_plaintextKeepsNoBuffer(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			at := "127.0.0.1:0"
			if network == "unix" {
				at = filepath.Join(t.TempDir(), "s")
			}
			lis, err := net.Listen(network, at)
			if err != nil {
				t.Fatal(err)
			}
			limit := connections.New(connections.Limits{}, unheard{})
			guarded := (&Listener{Name: "default", Connections: limit}).Guard(lis)
			defer guarded.Close()
			near, err := net.Dial(network, lis.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer near.Close()
			far, err := guarded.Accept()
			if err != nil {
				t.Fatal(err)
			}
			conn, _, err := Credentials().ServerHandshake(far)
			if err != nil {
				t.Fatal(err)
			}
			if _, local := conn.RemoteAddr().(*process); local != (network == "unix") {
				t.Errorf("the client is at a %T", conn.RemoteAddr())
			}
			reader, ok := conn.(interface {
				ReadOnReady(size int, pool mem.BufferPool) (*[]byte, int, error)
			})
			if !ok {
				t.Fatalf("gRPC is given a %T", conn)
			}
			pool := new(counted)
			if err := conn.SetReadDeadline(time.Now().Add(-time.Second)); err != nil {
				t.Fatal(err)
			}
			if _, _, err := reader.ReadOnReady(100, pool); !errors.Is(err, os.ErrDeadlineExceeded) || pool.taken != pool.back {
				t.Errorf("reading ends with %v, and %d of %d buffers came back", err, pool.back, pool.taken)
			}
			_ = conn.SetReadDeadline(time.Time{})
			if _, err := near.Write([]byte("hello")); err != nil {
				t.Fatal(err)
			}
			b, n, err := reader.ReadOnReady(100, pool)
			if err != nil || !bytes.Equal((*b)[:n], []byte("hello")) || pool.taken != pool.back+1 {
				t.Errorf("read %d bytes, %v; %d of %d buffers came back", n, err, pool.back, pool.taken)
			}
			_ = near.Close()
			if _, _, err := reader.ReadOnReady(100, pool); !errors.Is(err, io.EOF) || pool.taken != pool.back+1 {
				t.Errorf("reading ends with %v, and %d of %d buffers came back", err, pool.back, pool.taken)
			}
			if present, _ := limit.Count(); present != 1 {
				t.Errorf("there are %d connections", present)
			}
			_, _ = conn.Close(), conn.Close()
			if present, _ := limit.Count(); present != 0 {
				t.Errorf("there are %d connections", present)
			}
			if _, _, err := reader.ReadOnReady(100, pool); !errors.Is(err, net.ErrClosed) {
				t.Errorf("reading ends with %v", err)
			}
		})
	}
}
