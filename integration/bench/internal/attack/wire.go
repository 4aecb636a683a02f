package attack

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// deltaMethod is the method of incremental clients that ask for several types on one stream.
const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// wire is a connection to a server of gRPC. It takes all that the server sends, and throws it
// away. One goroutine writes.
type wire struct {
	conn    net.Conn
	framer  *http2.Framer
	headers bytes.Buffer
	encoder *hpack.Encoder
	next    uint32 // stream

	mu     sync.Mutex
	more   sync.Cond
	window map[uint32]int // bytes that may be sent: on a stream, and (0) on the connection
	first  int            // of a stream
	err    error          // of the reader, which is gone then
}

// largest is what a frame may hold without having asked.
const largest = 16 << 10

// dial connects. close must be called.
func dial(ctx context.Context, addr string) (*wire, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	w := &wire{conn: conn, framer: http2.NewFramer(conn, conn), next: 1, first: 64<<10 - 1, window: map[uint32]int{0: 64<<10 - 1}}
	w.more.L = &w.mu
	w.encoder = hpack.NewEncoder(&w.headers)
	w.encoder.SetMaxDynamicTableSizeLimit(0)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	const wide = 1 << 30
	if err := w.framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: wide}); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := w.framer.WriteWindowUpdate(0, wide); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return w, nil
}

func (w *wire) close() { _ = w.conn.Close() } // the attacker is not interested

// read takes what the server sends until the connection ends. It answers nothing: what needs an
// answer is told by channels of their own.
func (w *wire) read() {
	for {
		f, err := w.framer.ReadFrame()
		w.mu.Lock()
		if err != nil {
			w.err = err
			w.more.Broadcast()
			w.mu.Unlock()
			return
		}
		switch f := f.(type) {
		case *http2.WindowUpdateFrame:
			w.window[f.StreamID] += int(f.Increment)
		case *http2.RSTStreamFrame:
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

// wakeAt has those who wait look again when ctx ends. stop must be called.
func (w *wire) wakeAt(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.more.Broadcast()
	})
}

// allowed waits until the server takes bytes on a stream, and takes up to n of them. It fails once the
// stream or the connection has ended.
func (w *wire) allowed(ctx context.Context, stream uint32, n int) (int, error) {
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
			return 0, errEnded
		}
		if may := min(n, own, w.window[0], largest); may > 0 {
			w.window[stream] -= may
			w.window[0] -= may
			return may, nil
		}
		w.more.Wait()
	}
}

var errEnded = errors.New("the server ended the stream")

// open opens a stream of an incremental client, with some headers more.
func (w *wire) open(more ...hpack.HeaderField) (stream uint32, err error) {
	w.headers.Reset()
	for _, f := range append([]hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: deltaMethod},
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
	if err := w.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: head, EndHeaders: len(head) == len(block)}); err != nil {
		return 0, err
	}
	for block = block[len(head):]; len(block) > 0; {
		part := block[:min(len(block), largest)]
		block = block[len(part):]
		if err := w.framer.WriteContinuation(stream, len(block) == 0, part); err != nil {
			return 0, err
		}
	}
	return stream, nil
}

// send sends bytes on a stream, as the server lets it.
func (w *wire) send(ctx context.Context, stream uint32, b []byte) error {
	for len(b) > 0 {
		n, err := w.allowed(ctx, stream, len(b))
		if err != nil {
			return err
		}
		if err := w.framer.WriteData(stream, false, b[:n]); err != nil {
			return err
		}
		b = b[n:]
	}
	return nil
}

// rest leaves a connection as it is until the server ends it, or ctx.
func (w *wire) rest(ctx context.Context) error {
	stop := w.wakeAt(ctx)
	defer stop()
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.err == nil && ctx.Err() == nil {
		w.more.Wait()
	}
	return w.err
}

// message frames a message of gRPC.
func message(body []byte) []byte {
	b := make([]byte, 5, 5+len(body))
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)))
	return append(b, body...)
}

// again does something until ctx ends, at once again when it fails: an attacker does not give up.
func again(ctx context.Context, something func(context.Context) error) {
	const pause = time.Millisecond // so that a server that refuses is not only asked how fast it can refuse
	for ctx.Err() == nil {
		_ = something(ctx) // a refusal, which is what the server should do
		select {
		case <-time.After(pause):
		case <-ctx.Done():
		}
	}
}

// connected does something on a connection of its own, which is closed afterwards.
func connected(addr string, something func(context.Context, *wire) error) func(context.Context) error {
	return func(ctx context.Context) error {
		w, err := dial(ctx, addr)
		if err != nil {
			return err
		}
		defer w.close()
		stop := context.AfterFunc(ctx, w.close)
		defer stop()
		go w.read()
		return something(ctx, w)
	}
}
