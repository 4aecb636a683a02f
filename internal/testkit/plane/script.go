package plane

import (
	"net"
	"strings"
	"sync"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// DeltaStream is an incremental stream, as a server has it.
type DeltaStream = grpc.BidiStreamingServer[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]

// StateStream is a stream of the state of the world.
type StateStream = grpc.BidiStreamingServer[discovery.DiscoveryRequest, discovery.DiscoveryResponse]

// Script is a control plane without contents: functions of the test serve the streams of every service. Which method
// was called, [grpc.Method] tells of a stream's context.
type Script struct {
	Delta func(DeltaStream) error // nil: there are no incremental methods
	State func(StateStream) error // nil: there are none of the state of the world

	server  *grpc.Server
	serving sync.WaitGroup
}

// Serve serves streams on lis until Stop, which closes it.
func (s *Script) Serve(lis net.Listener, options ...grpc.ServerOption) {
	s.server = grpc.NewServer(append([]grpc.ServerOption{grpc.UnknownServiceHandler(s.handle)}, options...)...)
	s.serving.Go(func() { _ = s.server.Serve(lis) }) // ends with Stop
}

// Stop ends it as a crash does.
func (s *Script) Stop() {
	s.server.Stop()
	s.serving.Wait()
}

func (s *Script) handle(_ any, g grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(g)
	switch delta := strings.Contains(method, "/Delta"); {
	case delta && s.Delta != nil:
		return s.Delta(&grpc.GenericServerStream[discovery.DeltaDiscoveryRequest, discovery.DeltaDiscoveryResponse]{ServerStream: g})
	case !delta && s.State != nil:
		return s.State(&grpc.GenericServerStream[discovery.DiscoveryRequest, discovery.DiscoveryResponse]{ServerStream: g})
	}
	return status.Errorf(codes.Unimplemented, "unknown method %s", method)
}
