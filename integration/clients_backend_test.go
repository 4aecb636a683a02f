package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/xdsrelay/xdsrelay/internal/testkit/ports"
)

// The one method of the backends, which answers with the backend's name.
const (
	backendService = "xdsrelay.test.Backend"
	backendMethod  = "/" + backendService + "/Name"
)

// bytesCodec leaves messages as they are, so that the clients need no schema and
// no generated code in any language.
type bytesCodec struct{}

func (bytesCodec) Marshal(v any) ([]byte, error) {
	b, ok := v.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("a message is a %T, expected bytes", v)
	}
	return *b, nil
}

func (bytesCodec) Unmarshal(data []byte, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("a message is wanted as a %T, expected bytes", v)
	}
	*b = append([]byte(nil), data...)
	return nil
}

func (bytesCodec) Name() string { return "bytes" }

// newBackend runs a server that RPCs are made to, and gives its address.
func newBackend(t testing.TB, name string) string {
	t.Helper()
	answer := []byte(name)
	s := grpc.NewServer(grpc.ForceServerCodec(bytesCodec{}))
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: backendService,
		Methods: []grpc.MethodDesc{{
			MethodName: "Name",
			Handler: func(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
				return &answer, decode(new([]byte))
			},
		}},
	}, nil)
	lis := ports.Listen(t)
	var serving sync.WaitGroup
	serving.Go(func() { _ = s.Serve(lis) }) // ends with Stop
	t.Cleanup(func() {
		s.Stop()
		serving.Wait()
	})
	return lis.Addr().String()
}
