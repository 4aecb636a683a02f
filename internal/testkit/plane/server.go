package plane

import (
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/xdsrelay/xdsrelay/internal/xds"
	"google.golang.org/grpc"
)

// server is one run of a plane, from its start to its stop.
type server struct {
	grpc    *grpc.Server
	http    *http.Server
	running sync.WaitGroup
}

func serve(p *Plane, lis, rest net.Listener) *server {
	s := &server{grpc: grpc.NewServer(p.options...)}
	s.grpc.RegisterService(p.service("envoy.service.discovery.v3.AggregatedDiscoveryService", "",
		"StreamAggregatedResources", "DeltaAggregatedResources"), nil)
	for _, of := range xds.Services() {
		s.grpc.RegisterService(p.service(of.Name, of.TypeURL, of.State, of.Delta), nil)
	}
	if p.beside != nil {
		p.beside(s.grpc)
	}
	s.http = &http.Server{Handler: &polls{plane: p, server: s}, ReadHeaderTimeout: time.Minute}
	s.running.Go(func() { _ = s.grpc.Serve(lis) }) // ends with stop
	if rest != nil {
		s.running.Go(func() { _ = s.http.Serve(rest) }) // likewise
	}
	return s
}

func (s *server) stop() {
	s.grpc.Stop()
	_ = s.http.Close()
	s.running.Wait()
}

// service describes a discovery service, of one type or of all. The methods' last
// names are "" where the service has none.
func (p *Plane) service(name, typeURL, state, delta string) *grpc.ServiceDesc {
	d := &grpc.ServiceDesc{ServiceName: name}
	for _, method := range []string{state, delta} {
		if method == "" {
			continue
		}
		d.Streams = append(d.Streams, grpc.StreamDesc{
			StreamName: method, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, g grpc.ServerStream) error {
				return p.serveStream(g, typeURL, strings.HasPrefix(method, "Delta"))
			},
		})
	}
	return d
}
