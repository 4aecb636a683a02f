package downstream

import (
	"bytes"
	"encoding/binary"
	"net"
	"runtime"
	"strconv"
	"testing"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// shutClient opens a stream whose client takes so many bytes of all responses and no more,
// which gRPC's own clients cannot do: it has a small window, and never opens it. It gives
// the frames of these bytes to taken, if that is not nil.
func (h *harness) shutClient(window uint32, taken func([]byte)) (send func(*request)) {
	h.Helper()
	conn, err := h.lis.DialContext(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	h.shutdown = append(h.shutdown, func() { conn.Close() })
	h.must(writePreface(conn, f, window))
	go func() { // the connection itself is read
		for {
			frame, err := f.ReadFrame()
			if err != nil {
				return
			}
			if data, ok := frame.(*http2.DataFrame); ok && taken != nil {
				taken(bytes.Clone(data.Data()))
			}
		}
	}()
	return func(r *request) {
		h.Helper()
		b, err := proto.Marshal(r)
		h.must(err)
		h.must(f.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(b))), b...)))
	}
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

// writePreface begins a connection with one stream.
func writePreface(conn net.Conn, f *http2.Framer, window uint32) error {
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: window}); err != nil {
		return err
	}
	if err := f.WriteSettingsAck(); err != nil {
		return err
	}
	var block bytes.Buffer
	e := hpack.NewEncoder(&block)
	for _, field := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"}, {Name: ":path", Value: adsMethod},
		{Name: ":authority", Value: "relay"}, {Name: "content-type", Value: "application/grpc"}, {Name: "te", Value: "trailers"},
	} {
		if err := e.WriteField(field); err != nil {
			return err
		}
	}
	return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true})
}

const adsMethod = discovery.AggregatedDiscoveryService_DeltaAggregatedResources_FullMethodName

// What gRPC counts beside each response counts here too: or a client that is sent
// thousands of tiny ones would have a sender wait for it that others wait for.
func TestSenders_OPS5_TinyResponses(t *testing.T) {
	bubble(t, func(h *harness) {
		const types = 200
		for range runtime.GOMAXPROCS(0) {
			send := h.shutClient(0, nil)
			for i := range types {
				send(&request{TypeUrl: string(rune(0x100 + i)), ResourceNamesSubscribe: []string{"a"}})
			}
		}
		h.quiet()
		quick := h.client()
		quick.subscribe(clusterType)
		for i := 1; i < 40; i++ {
			for n := range types {
				if typeURL := string(rune(0x100 + n)); i%2 == 0 {
					h.opaque.put(typeURL, &discovery.Resource{Name: "a", Version: "1", Resource: &anypb.Any{TypeUrl: typeURL}})
				} else {
					h.opaque.unset(typeURL, "a")
				}
			}
			h.sized(strconv.Itoa(i), 1, 10)
			h.advance(ackWait)
			if got := holds(quick.all)["r0000"]; got != strconv.Itoa(i) {
				t.Fatalf("holds version %s after update %d", got, i)
			}
		}
	})
}

// Who acknowledges a response has read the one before. Of this one the nonce is enough,
// which a client finds near its beginning: the rest may fill what gRPC takes.
func TestSenders_OPS5_AcknowledgedUnread(t *testing.T) {
	bubble(t, func(h *harness) {
		h.sized("0", 1, 100<<10)
		for range runtime.GOMAXPROCS(0) {
			begun := make(chan []byte, 10)
			send := h.shutClient(200, func(b []byte) { begun <- b })
			send(&request{TypeUrl: clusterType})
			h.quiet()
			send(&request{TypeUrl: clusterType, ResponseNonce: nonceIn(h, <-begun)})
		}
		h.quiet()
		quick := h.client()
		quick.subscribe(clusterType)
		for i := 1; i < 5; i++ {
			h.sized(strconv.Itoa(i), 1, 10)
			h.quiet()
			if got := holds(quick.all)["r0000"]; got != strconv.Itoa(i) {
				t.Fatalf("holds version %s after update %d", got, i)
			}
		}
	})
}

// nonceIn finds the nonce in what a response begins with.
func nonceIn(h *harness, b []byte) string {
	h.Helper()
	for b = b[5:]; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind != protowire.BytesType {
			break
		}
		value, size := protowire.ConsumeBytes(b[n:])
		if size < 0 {
			break
		}
		if number == 5 {
			return string(value)
		}
		b = b[n+size:]
	}
	h.Fatal("a response does not begin with its nonce")
	return ""
}
