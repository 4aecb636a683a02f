// Package frames is a client of gRPC that speaks HTTP/2 frame by frame, and a server that takes no stream: no library
// lets its user do what peers that mean harm do.
package frames

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// deltaMethod is the method of incremental clients that ask for several types on one stream.
const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// Wire is a connection to a server of gRPC. It takes all that the server sends, counts it, and throws it
// away. One goroutine writes.
type Wire struct {
	Framer *http2.Framer // to write with

	conn    net.Conn
	headers bytes.Buffer
	encoder *hpack.Encoder
	next    uint32 // stream

	mu     sync.Mutex
	more   sync.Cond
	window map[uint32]int // bytes that may be sent: on a stream, and (0) on the connection
	first  int            // of a stream
	err    error          // of the reader, which is gone then
	resets map[http2.ErrCode]int
	gone   []http2.ErrCode // of GOAWAY
}

// largest is what a frame may hold without having asked.
const largest = 16 << 10

// Over is a client over a connection to a server: it says that it speaks HTTP/2, and reads. It closes the
// connection if there is an error. Otherwise the function is to be called: it closes the connection, and waits for the
// reader.
func Over(conn net.Conn) (*Wire, func(), error) {
	w := &Wire{
		conn: conn, Framer: http2.NewFramer(conn, conn), next: 1, first: 64<<10 - 1, window: map[uint32]int{0: 64<<10 - 1},
		resets: make(map[http2.ErrCode]int),
	}
	w.more.L = &w.mu
	w.encoder = hpack.NewEncoder(&w.headers)
	w.encoder.SetMaxDynamicTableSizeLimit(0)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	const wide = 1 << 30
	if err := w.Framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide}); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	if err := w.Framer.WriteWindowUpdate(0, wide); err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.read()
	}()
	return w, func() {
		w.Close()
		<-done
	}, nil
}

// Close closes the connection.
func (w *Wire) Close() { _ = w.conn.Close() } // the attacker is not interested

// read takes what the server sends until the connection ends. It answers nothing: what needs an
// answer is told by channels of their own.
func (w *Wire) read() {
	for {
		f, err := w.Framer.ReadFrame()
		w.mu.Lock()
		if err != nil {
			w.err = err
			w.more.Broadcast()
			w.mu.Unlock()
			return
		}
		switch f := f.(type) {
		case *http2.GoAwayFrame:
			w.gone = append(w.gone, f.ErrCode)
		case *http2.WindowUpdateFrame:
			w.window[f.StreamID] += int(f.Increment)
		case *http2.RSTStreamFrame:
			w.resets[f.ErrCode]++
			delete(w.window, f.StreamID)
		case *http2.SettingsFrame:
			if v, ok := f.Value(http2.SettingInitialWindowSize); ok {
				for id := range w.window {
					if id != 0 {
						w.window[id] += int(v) - w.first
					}
				}
				w.first = int(v)
			}
		case *http2.HeadersFrame:
			if f.StreamEnded() {
				delete(w.window, f.StreamID)
			}
		}
		w.more.Broadcast()
		w.mu.Unlock()
	}
}

// wakeAt has waiting goroutines look again when ctx ends. stop must be called.
func (w *Wire) wakeAt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.more.Broadcast()
	})
}

// allowed waits until the server takes bytes on a stream, and takes up to n of them. It fails once the
// stream or the connection has ended.
func (w *Wire) allowed(ctx context.Context, stream uint32, n int) (int, error) {
	stop := w.wakeAt(ctx)
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		own, ok := w.window[stream]
		switch {
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case w.err != nil:
			return 0, w.err
		case !ok:
			return 0, ErrEnded
		}
		if may := min(n, own, w.window[0], largest); may > 0 {
			w.window[stream] -= may
			w.window[0] -= may
			return may, nil
		}
		w.more.Wait()
	}
}

// ErrEnded says that the server has ended the stream.
var ErrEnded = errors.New("the server ended the stream")

// Open opens a stream of an incremental client, with some headers more.
func (w *Wire) Open(more ...hpack.HeaderField) (stream uint32, err error) {
	return w.OpenOf(deltaMethod, more...)
}

// OpenOf opens a stream of a method, with some headers more.
func (w *Wire) OpenOf(method string, more ...hpack.HeaderField) (stream uint32, err error) {
	w.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: method},
		{Name: ":authority", Value: "xds"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
	}, more...) {
		if err := w.encoder.WriteField(f); err != nil {
			return 0, fmt.Errorf("encoding headers: %w", err)
		}
	}
	stream = w.next
	w.next += 2
	w.mu.Lock()
	w.window[stream] = w.first
	w.mu.Unlock()
	block := w.headers.Bytes()
	head := block[:min(len(block), largest)]
	if err := w.Framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head, EndHeaders: len(head) == len(block)}); err != nil {
		return 0, err
	}
	for block = block[len(head):]; len(block) > 0; {
		part := block[:min(len(block), largest)]
		block = block[len(part):]
		if err := w.Framer.WriteContinuation(stream, len(block) == 0, part); err != nil {
			return 0, err
		}
	}
	return stream, nil
}

// Send sends bytes on a stream, as the server lets it. The error wraps ErrEnded if the stream has ended.
func (w *Wire) Send(ctx context.Context, stream uint32, b []byte) error {
	for len(b) > 0 {
		n, err := w.allowed(ctx, stream, len(b))
		if err != nil {
			return err
		}
		if err := w.Framer.WriteData(stream, false, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// Rest leaves a connection as it is until the server ends it, or ctx.
func (w *Wire) Rest(ctx context.Context) error {
	stop := w.wakeAt(ctx)
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && ctx.Err() == nil {
		w.more.Wait()
	}
	return w.err
}

// Reset opens a stream, and ends it at once.
func (w *Wire) Reset() error {
	stream, err := w.Open()
	if err != nil {
		return err
	}
	w.mu.Lock()
	delete(w.window, stream)
	w.mu.Unlock()
	return w.Framer.WriteRSTStream(stream, http2.ErrCodeCancel)
}

// Resets counts the streams that the server has reset, with a code.
func (w *Wire) Resets(code http2.ErrCode) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.resets[code]
}

// Ended reports whether the connection has ended, and with which codes the server said before that it would.
func (w *Wire) Ended() (ended bool, gone []http2.ErrCode) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err != nil, slices.Clone(w.gone)
}

// Message frames a message of gRPC.
func Message(body []byte) []byte {
	b := make([]byte, 5, 5+len(body))
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)))
	return append(b, body...)
}
