package downstream

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/xdsrelay/xdsrelay/internal/testkit/frames"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

// attacker opens a connection on which a test writes frame by frame. It ends with the test.
func (h *harness) attacker() *frames.Wire {
	h.Helper()
	conn, err := h.lis.DialContext(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	w, end, err := frames.Over(conn)
	if err != nil {
		h.Fatal(err)
	}
	h.shutdown = append(h.shutdown, end)
	return w
}

// floods calls one as often as the server takes it within a time, or until the connection has ended.
func (h *harness) floods(w *frames.Wire, lasting time.Duration, one func() error) (times int) {
	h.Helper()
	stop := time.AfterFunc(lasting, w.Close)
	defer stop.Stop()
	for ; one() == nil; times++ {
		if times == 10_000_000 {
			h.Fatal("the server takes all of a flood")
		}
	}
	synctest.Wait()
	return times
}

// What clients send that no handler asks for is read slowly beyond a bound, whatever it is, and holds up
// nobody else. grpc-go ends some floods by itself.
func TestFloods_LIM2(t *testing.T) {
	const lasting = 10 * time.Second
	floods := frames.Idle()
	floods["resets"] = frames.Flood{Bytes: 13, Begin: func(w *frames.Wire) (func() error, error) { return w.Reset, nil }}
	floods["frames of a stream that there is not"] = frames.Flood{Bytes: 9 + 1000, Begin: func(w *frames.Wire) (func() error, error) {
		return func() error { return w.Framer.WriteData(99, false, make([]byte, 1000)) }, nil
	}}
	floods["headers"] = frames.Headers(16<<10, 10<<10)
	says := map[string][]http2.ErrCode{"pings": {http2.ErrCodeEnhanceYourCalm}} // before gRPC ends the connection
	for name, f := range floods {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				h.opaque.set(clusterType, "1", "a")
				other := h.client()
				other.subscribe(clusterType)
				other.wants("Cluster +a=1")
				w := h.attacker()
				one, err := f.Begin(w)
				if err != nil {
					t.Fatal(err)
				}
				times := h.floods(w, lasting, one)
				// What is read in the time, what is on its way, and what gRPC reads at once.
				if most := 1<<20 + int(lasting.Seconds())*(64<<10) + 2<<20; times*f.Bytes > most {
					t.Errorf("%d times %d bytes were taken, want %d at most", times, f.Bytes, most)
				}
				h.limited(LimitFrames, 1)
				if _, gone := w.Ended(); !slices.Equal(gone, says[name]) {
					t.Errorf("the server said %v, want %v", gone, says[name])
				}
				h.opaque.set(clusterType, "2", "a")
				other.wants("Cluster +a=2")
				h.advance(time.Minute) // what is on its way is read slowly, too
				if present, _ := h.connections.Count(); present != 1 {
					t.Errorf("there are %d connections, want that of the other client", present)
				}
			})
		})
	}
}

// opens has the attacker begin a stream.
func (h *harness) opens(w *frames.Wire) uint32 {
	h.Helper()
	stream, err := w.Open()
	if err != nil {
		h.Fatal(err)
	}
	return stream
}

// Headers that are too large, in however many frames, are not kept: their stream ends, or the connection.
func TestLargeHeaders_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		w := h.attacker()
		if _, err := w.Open(hpack.HeaderField{Name: "x-large", Value: strings.Repeat("x", maxHeaders)}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := w.Resets(http2.ErrCodeFrameSize); n != 1 {
			t.Errorf("%d streams were reset", n)
		}
		if n := h.seen.count("opened"); n != 0 {
			t.Errorf("%d streams were opened", n)
		}
		if _, err := w.Open(hpack.HeaderField{Name: "x-larger", Value: strings.Repeat("\x00\xff", 4*maxHeaders)}); err != nil && !errors.Is(err, io.ErrClosedPipe) {
			t.Log(err) // the server may be gone already
		}
		synctest.Wait()
		if ended, _ := w.Ended(); !ended {
			t.Error("the connection goes on after headers of 512 KiB")
		}
		h.limited(LimitFrames, 1)
	})
}

// Connections that say nothing, or not enough, end after some time.
func TestSilent_LIM1(t *testing.T) {
	for name, say := range map[string]string{
		"nothing": "", "half a preface": http2.ClientPreface[:10], "a preface": http2.ClientPreface, "half a frame": http2.ClientPreface + "\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(h *harness) {
				conn, err := h.lis.DialContext(h.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go func() { _, _ = io.Copy(io.Discard, conn) }()
				if _, err := io.WriteString(conn, say); err != nil {
					t.Fatal(err)
				}
				h.advance(handshakeTimeout - tick)
				if present, _ := h.connections.Count(); present != 1 {
					t.Errorf("there are %d connections before their time is over", present)
				}
				h.advance(tick)
				if present, _ := h.connections.Count(); present != 0 {
					t.Errorf("there are %d connections", present)
				}
			})
		})
	}
}

// What clients have begun to send and not finished is bounded, over all streams: the one that goes too far
// ends with a status, and the memory is free again.
func TestUnfinished_LIM1(t *testing.T) {
	const (
		message = 1 << 20
		most    = 4 << 20
	)
	bubble(t, func(h *harness) {
		w := h.attacker()
		begin := func(n int) (stream uint32) {
			t.Helper()
			stream = h.opens(w)
			ctx, cancel := context.WithTimeout(h.Context(), time.Second)
			defer cancel()
			_ = w.Send(ctx, stream, frames.Message(make([]byte, message))[:n]) // which may end the stream
			synctest.Wait()
			return stream
		}
		for range 3 {
			begin(message)
		}
		if got := h.server.shared.unfinished.Taken(); got < 2<<20 || got > most {
			t.Errorf("%d bytes are counted", got)
		}
		h.limited(LimitUnfinished, 0)
		for range 3 {
			begin(message)
		}
		if n := h.seen.count("limited: " + string(LimitUnfinished)); n < 1 || n > 3 {
			t.Errorf("%d messages were refused", n)
		}
		if got := h.server.shared.unfinished.Taken(); got > most {
			t.Errorf("%d bytes are counted, want %d at most", got, most)
		}
		if n := h.seen.closed[codes.ResourceExhausted]; n < 1 {
			t.Errorf("the streams ended with %v", h.seen.closed)
		}
		for range 100 { // the first of each message do not count
			begin(60 << 10)
		}
		other := h.client() // small requests are served
		other.subscribe(clusterType, strings.Repeat("x", 1<<10))
		w.Close()
		h.quiet()
		if got := h.server.shared.unfinished.Taken(); got != 0 {
			t.Errorf("%d bytes are counted of nothing", got)
		}
		large := h.client() // and large ones again
		large.subscribe(clusterType, many(50_000)...)
		h.quiet()
		if n := h.seen.subscribed[clusterType]; n < 50_000 {
			t.Errorf("a large request made %d subscriptions", n)
		}
		if got := h.server.shared.unfinished.Taken(); got != 0 {
			t.Errorf("%d bytes are counted of a message that is finished", got)
		}
	}, func(c *Config) { c.PerClient.UnfinishedBytes, c.PerClient.Share = most, 1 })
}

// A client that is slow, and not out for harm, may take its time for a large request.
func TestSlowRequest_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		w := h.attacker()
		stream := h.opens(w)
		r := &discovery.DeltaDiscoveryRequest{TypeUrl: clusterType, ResourceNamesSubscribe: many(50_000)}
		body, err := proto.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		for rest := frames.Message(body); len(rest) > 0; {
			n := min(len(rest), 10<<10)
			if err := w.Send(h.Context(), stream, rest[:n]); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
			h.advance(time.Second)
		}
		if n := h.status().Types[clusterType].Subscriptions; n != 50_000 {
			t.Errorf("the request made %d subscriptions", n)
		}
		h.limited(LimitFrames, 0)
	})
}

// Messages that gRPC would not take end the stream likewise.
func TestIncoming_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		for name, m := range map[string]struct {
			bytes string
			ends  bool
			code  codes.Code
		}{
			"compressed":       {"\x01\x00\x00\x00\x00", false, codes.Unimplemented},
			"of absurd length": {"\x00\xff\xff\xff\xff", false, codes.ResourceExhausted},
			"cut off":          {"\x00\x00\x00\x00\x05abc", true, codes.Internal},
			"a head cut off":   {"\x00\x00", true, codes.Internal},
			"nothing":          {"", true, codes.OK},
			"no protobuf":      {"\x00\x00\x00\x00\x01\xff", false, codes.Internal},
		} {
			before := h.seen.closed[m.code]
			w := h.attacker()
			stream := h.opens(w)
			if err := w.Framer.WriteData(stream, m.ends, []byte(m.bytes)); err != nil {
				t.Fatal(err)
			}
			h.quiet()
			if h.seen.closed[m.code] != before+1 {
				t.Errorf("a message that is %s ends the stream otherwise than with %v: %v", name, m.code, h.seen.closed)
			}
		}
	})
}

// A health check takes only messages that are as small as its own.
func TestHealthRequest_LIM1(t *testing.T) {
	bubble(t, func(h *harness) {
		conn := h.dial()
		check := func(n int) codes.Code {
			_, err := healthpb.NewHealthClient(conn).Check(h.Context(), &healthpb.HealthCheckRequest{Service: strings.Repeat("x", n)}, grpc.WaitForReady(true))
			return status.Code(err)
		}
		if got := check(100); got != codes.NotFound {
			t.Errorf("a check ends with %v", got)
		}
		if got := check(100 << 10); got != codes.ResourceExhausted {
			t.Errorf("a check of 100 KiB ends with %v", got)
		}
	})
}
