package frames

import (
	"crypto/rand"
	"encoding/hex"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Flood is something that a client may send again and again.
type Flood struct {
	Bytes int                                         // of one, at least
	Begin func(w *Wire) (one func() error, err error) // one sends it
}

// each is a flood that needs nothing before.
func each(bytes int, one func(w *Wire) error) Flood {
	return Flood{bytes, func(w *Wire) (func() error, error) { return func() error { return one(w) }, nil }}
}

// Idle are floods by name that ask a server for nothing.
func Idle() map[string]Flood {
	return map[string]Flood{
		"pings":            each(17, func(w *Wire) error { return w.Framer.WritePing(false, [8]byte{}) }),
		"answers to pings": each(17, func(w *Wire) error { return w.Framer.WritePing(true, [8]byte{}) }),
		"settings":         each(9, func(w *Wire) error { return w.Framer.WriteSettings() }),
		"window updates":   each(13, func(w *Wire) error { return w.Framer.WriteWindowUpdate(0, 1) }),
		"priorities":       each(14, func(w *Wire) error { return w.Framer.WritePriority(1, http2.PriorityParam{StreamDep: 3}) }),
		"unknown frames":   each(9, func(w *Wire) error { return w.Framer.WriteRawFrame(0x77, 0, 0, nil) }),
		"empty frames": {9, func(w *Wire) (func() error, error) {
			stream, err := w.Open()
			return func() error { return w.Framer.WriteData(stream, false, nil) }, err
		}},
	}
}

// Headers are requests with a header of noise, of which bytes are left at least when it is compressed.
func Headers(bytes, noise int) Flood {
	return Flood{bytes, func(w *Wire) (func() error, error) {
		b := make([]byte, noise)
		_, _ = rand.Read(b) // never fails
		large := hpack.HeaderField{Name: "x-noise", Value: hex.EncodeToString(b)}
		return func() error {
			_, err := w.Open(large)
			return err
		}, nil
	}}
}
