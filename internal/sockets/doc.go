// Package sockets opens the addresses that the relay listens on: host:port, and unix sockets.
//
// It owns the socket's file: its mode, the removal of a file that a relay left behind, and the
// removal at the end. It serves nobody, and does not know who connects.
package sockets
