package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"testing"

	discoveryv3 "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/xdsrelay/xdsrelay/internal/testkit/encoded"
)

const deltaMethod = "/envoy.service.discovery.v3.AggregatedDiscoveryService/DeltaAggregatedResources"

// serve runs a server with one incremental ADS stream handler, and gives a
// connection to it that has the given codec options.
func serve(t testing.TB, handle func(grpc.ServerStream) error, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	lis := bufconn.Listen(1 << 20)
	srv := grpc.NewServer(grpc.ForceServerCodecV2(Codec()))
	srv.RegisterService(&grpc.ServiceDesc{
		ServiceName: "envoy.service.discovery.v3.AggregatedDiscoveryService",
		Streams: []grpc.StreamDesc{{
			StreamName:    "DeltaAggregatedResources",
			Handler:       func(_ any, s grpc.ServerStream) error { return handle(s) },
			ServerStreams: true,
			ClientStreams: true,
		}},
	}, nil)
	done := make(chan error)
	go func() { done <- srv.Serve(lis) }()
	conn, err := grpc.NewClient("passthrough:///bufconn", append(opts,
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return lis.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return conn
}

// sendOnRequest answers every request with the message.
func sendOnRequest(m *Message) func(grpc.ServerStream) error {
	return func(s grpc.ServerStream) error {
		for {
			var req discoveryv3.DeltaDiscoveryRequest
			if err := s.RecvMsg(&req); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
			if err := s.SendMsg(m); err != nil {
				return err
			}
		}
	}
}

func fullMessage(t testing.TB) (*Message, *discoveryv3.DeltaDiscoveryResponse) {
	t.Helper()
	var r Response
	if err := r.Decode(encoded.Bytes(fullResponse())); err != nil {
		t.Fatal(err)
	}
	var b Builder
	for _, res := range r.Resources {
		b.Add(res)
	}
	// More than one HTTP/2 frame, flow control window and buffer of grpc's.
	big := newResource(t, &discoveryv3.Resource{Name: "big", Version: "v", Resource: payload(300_000)})
	b.AddAs(big, "bigger")
	for _, name := range r.Removed {
		b.Remove(name)
	}
	m := b.Finish(r.TypeURL, r.Version, r.Nonce)
	return m, parse(t, m)
}

func TestEndToEndGeneratedClient(t *testing.T) {
	m, want := fullMessage(t)
	conn := serve(t, sendOnRequest(m))
	// Two streams and several rounds with the same Message.
	for range 2 {
		stream, err := discoveryv3.NewAggregatedDiscoveryServiceClient(conn).DeltaAggregatedResources(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := stream.Send(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusterType}); err != nil {
				t.Fatal(err)
			}
			got, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			equal(t, want, got)
		}
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
}

// openStream opens a stream of a client with our codec and sends one request.
func openStream(t testing.TB, conn *grpc.ClientConn) grpc.ClientStream {
	t.Helper()
	stream, err := conn.NewStream(t.Context(), &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, deltaMethod)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: clusterType}); err != nil {
		t.Fatal(err)
	}
	return stream
}

func withCodec() grpc.DialOption {
	return grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Codec()))
}

func TestEndToEndDeltaResponse(t *testing.T) {
	m, want := fullMessage(t)
	stream := openStream(t, serve(t, sendOnRequest(m), withCodec()))
	var r Response
	if err := stream.RecvMsg(&r); err != nil {
		t.Fatal(err)
	}
	if r.Nonce != want.Nonce || len(r.Resources) != len(want.Resources) || len(r.Removed) != len(want.RemovedResources) {
		t.Errorf("got %+v", r)
	}
	var b Builder
	for _, res := range r.Resources {
		b.Add(res)
	}
	for _, name := range r.Removed {
		b.Remove(name)
	}
	equal(t, want, parse(t, b.Finish(r.TypeURL, r.Version, r.Nonce)))
}

// brokenMessage is a response with an undecodable resource in it.
func brokenMessage() *Message {
	b := []byte("\x12\x03\x1a\x01\xff" + "\x22\x01T" + "\x2a\x017")
	return &Message{gather: mem.BufferSlice{mem.SliceBuffer(b)}, size: len(b)}
}

func TestACK6_receivedKeepsTheStreamAlive(t *testing.T) {
	stream := openStream(t, serve(t, sendOnRequest(brokenMessage()), withCodec()))
	for range 2 {
		var r Received
		if err := stream.RecvMsg(&r); err != nil {
			t.Fatal(err)
		}
		if !errors.Is(r.Err, ErrInvalidUTF8) || r.TypeURL != "T" || r.Nonce != "7" || r.Resources != nil {
			t.Errorf("got %+v", r)
		}
		if err := stream.SendMsg(&discoveryv3.DeltaDiscoveryRequest{TypeUrl: "T", ResponseNonce: r.Nonce}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDeltaResponseEndsTheStream(t *testing.T) {
	stream := openStream(t, serve(t, sendOnRequest(brokenMessage()), withCodec()))
	var r Response
	if err := stream.RecvMsg(&r); status.Code(err) != codes.Internal {
		t.Errorf("err = %v", err)
	}
}

func TestCodecRefuses(t *testing.T) {
	c := Codec()
	if c.Name() != "proto" {
		t.Errorf("Name = %q", c.Name())
	}
	if _, err := c.Marshal((*Message)(nil)); err == nil {
		t.Error("a nil message was accepted")
	}
	if _, err := c.Marshal("text"); err == nil {
		t.Error("a string was accepted")
	}
	if err := c.Unmarshal(nil, new(int)); err == nil {
		t.Error("an int was accepted")
	}
}

func TestCodecReceivedIsReset(t *testing.T) {
	c := Codec()
	r := Received{Err: io.EOF}
	if err := c.Unmarshal(mem.BufferSlice{mem.SliceBuffer("\x2a\x017")}, &r); err != nil || r.Err != nil || r.Nonce != "7" || r.Size != 3 {
		t.Errorf("%v, %+v", err, r)
	}
}
