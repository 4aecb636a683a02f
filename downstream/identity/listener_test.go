package identity

import (
	"net"
	"testing"
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
