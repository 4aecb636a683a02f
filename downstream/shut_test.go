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
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/anypb"
)

// shutClient opens a stream whose client takes not one byte of a response: its window is
// closed, which gRPC's own clients cannot do.
func (h *harness) shutClient() (send func(*request)) {
	h.Helper()
	conn, err := h.lis.DialContext(h.Context())
	if err != nil {
		h.Fatal(err)
	}
	f := http2.NewFramer(conn, conn)
	h.shutdown = append(h.shutdown, func() { conn.Close() })
	h.must(writePreface(conn, f))
	go func() { // the connection itself is read
		for err := error(nil); err == nil; {
			_, err = f.ReadFrame()
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
func writePreface(conn net.Conn, f *http2.Framer) error {
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		return err
	}
	if err := f.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
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
			send := h.shutClient()
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
			h.advance(DefaultAckTimeout)
			if got := holds(quick.all)["r0000"]; got != strconv.Itoa(i) {
				t.Fatalf("holds version %s after update %d", got, i)
			}
		}
	})
}
